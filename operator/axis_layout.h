#pragma once

#include <cstdint>

#include <sluice/ndarray/shape.h>

namespace sluice::detail {

/// A contiguous array seen from one axis: `outer` x `n` x `inner`, where n is the extent of the axis.
struct AxisLayout {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t inner = 1;
};

inline AxisLayout axis_layout(const Shape& shape, int axis) noexcept {
  AxisLayout layout;
  layout.n = shape[axis];
  for (int i = 0; i < shape.ndim(); ++i) {
    if (i != axis)
      (i < axis ? layout.outer : layout.inner) *= shape[i];
  }
  return layout;
}

/// `shape` without `axis`.
inline Shape without_axis(Shape shape, int axis) noexcept {
  shape.erase(axis);
  return shape;
}

}  // namespace sluice::detail
