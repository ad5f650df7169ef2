#pragma once

#include <cstdint>

#include <sluice/ndarray/iterate.h>

namespace sluice::detail {

/// The axes of `plan` but for `axis` and the innermost one; one axis of extent 1 where there is none.
template <int K>
StridedPlan<K> plan_beside(const StridedPlan<K>& plan, int axis) noexcept {
  StridedPlan<K> rest;
  rest.ndim = 0;
  rest.size = 1;
  for (int other = 0; other + 1 < plan.ndim; ++other) {
    if (other == axis)
      continue;
    rest.extents[rest.ndim] = plan.extents[other];
    rest.size *= plan.extents[other];
    for (int k = 0; k < K; ++k)
      rest.strides[k][rest.ndim] = plan.strides[k][other];
    ++rest.ndim;
  }
  if (rest.ndim == 0)
    rest.extents[rest.ndim++] = 1;
  return rest;
}

}  // namespace sluice::detail
