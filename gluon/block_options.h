#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/parameter.h>
#include <sluice/operator/attributes.h>

namespace sluice::gluon {

/// What a layer says of how it was made, in its constructor:
///
///     note_options(OptionNotes().sizes("in_units", weight_, 1, "units", units).add("rate", rate, 0.0));
///
/// Block::options() gives the values by name; text shows those that are not as they are by default.
class SLUICE_API OptionNotes {
 public:
  /// Of numbers, text, shapes, what has a shape(), types, and optional ones. Always shown.
  template <class T>
  OptionNotes& add(const char* name, const T& value) {
    return put(name, value_of(value), true);
  }
  /// Shown unless the value is `by_default`.
  template <class T>
  OptionNotes& add(const char* name, const T& value, const std::type_identity_t<T>& by_default) {
    AttributeValue one = value_of(value);
    const bool differs = one != value_of(by_default);
    return put(name, std::move(one), differs);
  }
  /// A size of inputs, which may come with the first of them, and one of outputs: "784 -> 128". The first is the extent
  /// of an axis of `weight`, which lives as long as the block, times `times`; 0 as long as it is not known.
  OptionNotes& sizes(
      const char* in_name,
      const Parameter& weight,
      std::size_t axis,
      const char* out_name,
      std::int64_t out,
      std::int64_t times = 1);
  /// A size of inputs alone.
  OptionNotes& size(const char* in_name, const Parameter& weight, std::size_t axis = 0);
  /// All of `more`, behind these; those of the same names in place of what was noted.
  OptionNotes& join(OptionNotes more);

  std::vector<NamedValue> values() const;
  /// "784 -> 128, activation=relu"
  std::string text() const;

 private:
  struct Note {
    const char* name;
    AttributeValue value;
    bool is_shown;
    const Parameter* weight = nullptr;  // whose extent it is
    std::size_t axis = 0;
    std::int64_t times = 1;
    bool points = false;  // "in -> out" with the next one

    AttributeValue now() const;
  };

  template <class T>
  static AttributeValue value_of(const T& value) {
    if constexpr (std::same_as<T, bool> || std::same_as<T, DType>) {
      return value;
    } else if constexpr (std::integral<T>) {
      return static_cast<std::int64_t>(value);
    } else if constexpr (std::floating_point<T>) {
      return static_cast<double>(value);
    } else if constexpr (std::convertible_to<const T&, std::string_view>) {
      return std::string(std::string_view(value));
    } else if constexpr (requires { value.shape(); }) {
      return sluice::detail::value_of(value.shape());
    } else if constexpr (requires { value.has_value(); }) {
      return value ? value_of(*value) : AttributeValue();
    } else {
      return sluice::detail::value_of(value);
    }
  }
  OptionNotes& put(const char* name, AttributeValue value, bool is_shown);

  std::vector<Note> notes_;
};

}  // namespace sluice::gluon
