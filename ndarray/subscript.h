#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include <sluice/engine/source_location.h>

namespace sluice {

class NDArray;

/// What stands between the brackets of a[{..}], one for each axis, from the first on:
///
///     NumPy                          Sluice
///     a[2, :, 1:5]                   a[{2, {}, {1, 5}}]
///     a[2:, :-1, ::-1]               a[{{2, {}}, {{}, -1}, {{}, {}, -1}}]
///     a[..., np.newaxis, 0]          a[{k_rest, k_new_axis, 0}]
///     a[rows, 1:3], a[mask, 0]       a[{rows, {1, 3}}], a[{mask, 0}]
///     a[rows], a[mask]               a[rows], a[mask]
///
/// Rules of NumPy: negative numbers count from the back, bounds of ranges are clipped, the axis of an entry disappears.
/// Index arrays, of any integer type, are broadcast among themselves, and their shape takes the place of the axes that
/// they name; it comes first where something other than an entry stands between two of them, or between one and an
/// entry. A mask (bool) names as many axes as it has, whose extents are its own, and stands for the index arrays
/// nonzero() of it, which waits for the mask; one without axes names a new axis.
class Subscript {
 public:
  enum class Kind : std::uint8_t { entry, range, rest, new_axis, array };

  /// The line where one stands: brackets take no argument that could say it. Nothing converts to it, braces neither.
  class Line {
   public:
    constexpr explicit Line(SourceLocation site) noexcept : site_(site) {}
    constexpr SourceLocation site() const noexcept { return site_; }

   private:
    SourceLocation site_;
  };

  /// The whole axis.
  constexpr Subscript() = default;
  /// One entry.
  template <class T>
  requires(
      (std::integral<T> && !std::same_as<T, bool>) ||
      (std::is_enum_v<T> &&
       std::is_convertible_v<
           T,
           std::
               int64_t>)) constexpr Subscript(T entry, Line line = Line(SourceLocation::current())) noexcept  // NOLINT:
                                                                                                              // converts
                                                                                                              // by
                                                                                                              // design
      : kind_(Kind::entry), begin_(static_cast<std::int64_t>(entry)), site_(line.site()) {}
  /// Entries begin, begin + step, .. before end, which a negative step comes down to; without a bound to that side.
  constexpr Subscript(
      std::optional<std::int64_t> begin,
      std::optional<std::int64_t> end,
      std::int64_t step = 1,
      Line line = Line(SourceLocation::current())) noexcept
      : begin_(begin.value_or(step < 0 ? k_most : 0)),
        end_(end.value_or(step < 0 ? k_least : k_most)),
        step_(step),
        site_(line.site()) {}
  /// An index array or a mask, which is not kept: it lives as long as the subscript does.
  template <std::same_as<NDArray> Array>
  constexpr Subscript(
      const Array& array, Line line = Line(SourceLocation::current())) noexcept  // NOLINT: converts by design
      : kind_(Kind::array), array_(&array), site_(line.site()) {}
  /// Of k_rest and k_new_axis.
  constexpr explicit Subscript(Kind kind) noexcept : kind_(kind) {}

  constexpr Kind kind() const noexcept { return kind_; }
  constexpr std::int64_t begin() const noexcept { return begin_; }
  constexpr std::int64_t end() const noexcept { return end_; }
  constexpr std::int64_t step() const noexcept { return step_; }
  constexpr const NDArray& array() const noexcept { return *array_; }
  /// Of `{}`, k_rest and k_new_axis line 0.
  constexpr SourceLocation site() const noexcept { return site_; }

 private:
  static constexpr std::int64_t k_least = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();

  Kind kind_ = Kind::range;
  std::int64_t begin_ = 0;
  std::int64_t end_ = k_most;
  std::int64_t step_ = 1;
  const NDArray* array_ = nullptr;
  SourceLocation site_;
};

/// All axes that no other subscript is for, as many as there are: NumPy's "...".
inline constexpr Subscript k_rest{Subscript::Kind::rest};
/// An axis of extent 1 that the array does not have.
inline constexpr Subscript k_new_axis{Subscript::Kind::new_axis};

}  // namespace sluice
