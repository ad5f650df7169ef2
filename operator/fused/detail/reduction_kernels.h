#pragma once

// The kernels around a fused program whose first result a reduction takes in, compiled by NVRTC after the program: see
// reduction_source.cpp. They are the reductions' own (reduce/reduce_kernels.cuh), of terms that are computed where
// those of an array would be read; so results are those of the array to the last bit.
#ifdef __CUDACC_RTC__

#include <cstdint>

#include <sluice/operator/fused/detail/kernels.h>
#include <sluice/operator/reduce/reduce_kernels.cuh>
#include <sluice/operator/reduce/row_states.h>

namespace sluice::fused {

/// What terms are made of: K inputs, and in front of them the arrays that further results of the program go to, row by
/// row. `first`: the element from which places count.
template <int K, int P, int N>
struct Operands {
  const Layout<K>& at;
  const Pointers<P>& data;
  const Numbers<N>& n;
  std::int32_t first;

  __device__ Operands behind(std::int64_t elements) const {
    return {at, data, n, first + static_cast<std::int32_t>(elements)};
  }
};

/// Neighbours of a result that lies row by row.
template <bool together, class T, int V>
__device__ void write_neighbours(void* data, std::int32_t first, const Neighbours<T, V>& values) {
  if constexpr (together || V == 1) {
    write_vector(data, first, values);
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j)
      static_cast<T*>(data)[first + j] = values.at[j];
  }
}

}  // namespace sluice::fused

#endif
