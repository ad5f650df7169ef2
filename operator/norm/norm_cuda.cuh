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

/// Of dy, and of dy times what the gradient of a deviation needs: x less its mean, or x normalised.
template <class Acc>
struct GradientSums {
  static constexpr int n = 2;
  Acc v[2];
  __device__ void merge(const GradientSums& other) {
    v[0] += other.v[0];
    v[1] += other.v[1];
  }
};

/// V neighbours of both, and the channel (or plane) of the first.
template <class T, int V>
struct GradientValues {
  Neighbours<T, V> dy, x;
  std::int64_t first;
};

}  // namespace sluice::detail
