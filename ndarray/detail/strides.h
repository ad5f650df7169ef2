#pragma once

#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/shape.h>

namespace sluice::detail {

/// Extents become the strides of elements that lie row by row: contiguous_strides(), in place.
inline void become_strides(Shape& extents) noexcept {
  if (extents.ndim() == 0)
    return;
  std::int64_t run = 1;
  for (int axis = extents.ndim() - 1; axis > 0; --axis) {
    const std::int64_t extent = std::max<std::int64_t>(extents[axis], 1);
    extents[axis] = run;
    if (__builtin_mul_overflow(run, extent, &run))
      run = 0;  // only beside an extent of 0, where no element exists
  }
  extents[0] = run;
}

}  // namespace sluice::detail
