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

}  // namespace sluice::gluon::nn
