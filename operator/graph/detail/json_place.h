#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/value.hpp>

#include <sluice/engine/error.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/shape.h>

namespace sluice::graph {

/// A value of a JSON text and where it stands there. What it is not, it says in a FileError that names file and place.
class JsonPlace {
 public:
  JsonPlace(const std::string& file, const boost::json::value& value, std::string path = "")
      : file_(&file), value_(&value), path_(std::move(path)) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw FileError(message(*file_, ": ", path_.empty() ? "" : path_ + ": ", what));
  }
  const boost::json::value& value() const noexcept { return *value_; }
  const std::string& path() const noexcept { return path_; }

  std::optional<JsonPlace> find(const char* key) const {
    if (!value_->is_object())
      fail("is no object");
    const boost::json::value* const found = value_->get_object().if_contains(key);
    if (found == nullptr)
      return std::nullopt;
    return JsonPlace(*file_, *found, path_.empty() ? key : path_ + '.' + key);
  }
  JsonPlace operator[](const char* key) const {
    std::optional<JsonPlace> found = find(key);
    if (!found)
      fail(message("has no \"", key, '"'));
    return *std::move(found);
  }
  std::vector<JsonPlace> entries() const {
    if (!value_->is_array())
      fail("is no list");
    std::vector<JsonPlace> made;
    for (const boost::json::value& entry : value_->get_array())
      made.emplace_back(*file_, entry, path_ + '[' + std::to_string(made.size()) + ']');
    return made;
  }
  std::vector<std::pair<std::string, JsonPlace>> fields() const {
    if (!value_->is_object())
      fail("is no object");
    std::vector<std::pair<std::string, JsonPlace>> made;
    for (const auto& [key, field] : value_->get_object()) {
      std::string name(key.data(), key.size());
      made.emplace_back(name, JsonPlace(*file_, field, path_ + '.' + name));
    }
    return made;
  }

  std::string text() const {
    if (!value_->is_string())
      fail("is no text");
    return {value_->get_string().data(), value_->get_string().size()};
  }
  bool truth() const {
    if (!value_->is_bool())
      fail("is neither true nor false");
    return value_->get_bool();
  }
  std::int64_t whole(std::int64_t low, std::int64_t high) const {
    if (!value_->is_int64() || value_->get_int64() < low || value_->get_int64() > high)
      fail(message("is no whole number from ", low, " to ", high));
    return value_->get_int64();
  }
  /// Written as text.
  double real() const {
    const std::string digits = text();
    double number = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (end.ec != std::errc() || end.ptr != digits.data() + digits.size())
      fail("is no number in quotes");
    return number;
  }
  std::vector<std::int64_t> whole_numbers(std::int64_t low) const {
    std::vector<std::int64_t> made;
    for (const JsonPlace& entry : entries())
      made.push_back(entry.whole(low, INT64_MAX));
    return made;
  }
  Shape shape() const {
    const std::vector<std::int64_t> extents = whole_numbers(0);
    std::int64_t size = 1;
    bool fits = extents.size() <= static_cast<std::size_t>(k_max_ndim);
    for (const std::int64_t extent : extents)
      fits = fits && !__builtin_mul_overflow(size, std::max<std::int64_t>(extent, 1), &size) && size <= INT64_MAX / 16;
    if (!fits)
      fail(message("is no shape: more than ", k_max_ndim, " axes, or more elements than memory has"));
    return Shape(extents);
  }
  DType dtype() const {
    const std::string name = text();
    for (int i = 0; i < k_dtypes; ++i) {
      if (name_of(static_cast<DType>(i)) == name)
        return static_cast<DType>(i);
    }
    fail(message("no element type is called '", name, "'"));
  }

 private:
  const std::string* file_;
  const boost::json::value* value_;
  std::string path_;
};

}  // namespace sluice::graph
