#pragma once

#include <concepts>
#include <cstdint>

#include <sluice/ndarray/shape.h>

namespace sluice::gluon::nn {

/// (height, width): written as one number for both, or as {height, width}.
class Size2D {
 public:
  template <std::integral Int>
  constexpr Size2D(Int both) noexcept : height(both), width(both) {}  // NOLINT: converts by design
  constexpr Size2D(std::int64_t rows, std::int64_t columns) noexcept : height(rows), width(columns) {}
  Shape shape() const { return {height, width}; }

  std::int64_t height, width;
};

/// Elements beside an image: written as one number for all sides, as {height, width}, each for both of its sides, or as
/// {top, left, bottom, right}.
class Padding2D {
 public:
  template <std::integral Int>
  constexpr Padding2D(Int all) noexcept : Padding2D(all, all) {}  // NOLINT: converts by design
  constexpr Padding2D(std::int64_t height, std::int64_t width) noexcept : Padding2D(height, width, height, width) {}
  constexpr Padding2D(std::int64_t t, std::int64_t l, std::int64_t b, std::int64_t r) noexcept
      : top(t), left(l), bottom(b), right(r) {}
  constexpr bool is_valid() const noexcept { return top >= 0 && left >= 0 && bottom >= 0 && right >= 0; }
  /// As operators take it.
  Shape shape() const { return top == bottom && left == right ? Shape{top, left} : Shape{top, left, bottom, right}; }

  std::int64_t top, left, bottom, right;
};

}  // namespace sluice::gluon::nn
