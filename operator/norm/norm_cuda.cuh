#pragma once

// Batch norm on a GPU: statistics by channel_reduce, then one pass over the elements.
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/norm/kernels.h>

namespace sluice::detail {

/// An element as it comes out of batch norm, from its distance to the mean: backward asks again.
template <class T>
__device__ T normalised(Compute<T> centred, Compute<T> scale, Compute<T> shift) {
  return T(fma(centred, scale, shift));
}

}  // namespace sluice::detail
