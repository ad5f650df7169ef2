#pragma once

#include <sluice/operator/operator.h>
#include <sluice/operator/pool/geometry.h>

// Averages of windows that are whole planes, on a GPU: a reduction, and its gradient.
namespace sluice::detail {

inline bool is_of_planes(const PoolGeometry& g) noexcept {
  bool is_whole = true;
  for (int axis = 0; axis < 2; ++axis)
    is_whole = is_whole && g.kernel[axis] == g.in[axis] && g.pad[axis] == 0 && g.pad_end[axis] == 0;
  return is_whole;
}

// x, in any order -> y
void mean_of_planes_gpu(const KernelCall& call);
// dy -> dx, row by row
void spread_over_planes_gpu(const KernelCall& call);

}  // namespace sluice::detail
