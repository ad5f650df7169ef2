#pragma once

// Blocks that add up what is one result.
#ifdef __CUDACC__
#include <cooperative_groups.h>
#endif

#include <sluice/ndarray/neighbours.cuh>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define SLUICE_CLUSTERS 1
#else
#define SLUICE_CLUSTERS 0
#endif

namespace sluice::detail {

/// Blocks that share a result, each with some of its terms, and see each other's sums: a cluster (sm_90), or one alone.
template <bool Several>
struct Partners {
  int count = 1, mine = 0;

  __device__ Partners() {
#if SLUICE_CLUSTERS
    if constexpr (Several) {
      count = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
      mine = static_cast<int>(cooperative_groups::this_cluster().block_rank());
    }
#endif
  }
  __device__ void meet() const {
#if SLUICE_CLUSTERS
    if constexpr (Several)
      return cooperative_groups::this_cluster().sync();
#endif
    __syncthreads();
  }
  /// What stands at `here` of this block's sums, added up over all blocks, in their order.
  template <int V>
  __device__ Neighbours<float, V> sum(const float* here) const {
    using Some = Neighbours<float, V>;
#if SLUICE_CLUSTERS
    if constexpr (Several) {
      Some total{};
#pragma unroll 4
      for (int i = 0; i < count; ++i) {
        const auto part = *reinterpret_cast<const Some*>(
            cooperative_groups::this_cluster().map_shared_rank(const_cast<float*>(here), static_cast<unsigned>(i)));
#pragma unroll
        for (int j = 0; j < V; ++j)
          total.at[j] += part.at[j];
      }
      return total;
    }
#endif
    return *reinterpret_cast<const Some*>(here);
  }
};

}  // namespace sluice::detail
