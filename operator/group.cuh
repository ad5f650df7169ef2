#pragma once

// Threads that work on one result together: a group of 1, of 32 (a warp) or of a whole block.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_runtime.h>

#include <sluice/ndarray/neighbours.cuh>

namespace sluice::detail {

inline constexpr int k_warp = 32;
inline constexpr int k_group_block = 256;  // threads of a block in the kernels that work in groups

/// Structs go word by word.
template <class A>
__device__ inline A shuffle_xor(A value, int lanes) {
  if constexpr (std::is_arithmetic_v<A>) {
    return __shfl_xor_sync(0xffffffffu, value, lanes);
  } else {
    static_assert(sizeof(A) % sizeof(unsigned) == 0 && std::is_trivially_copyable_v<A>);
    unsigned words[sizeof(A) / sizeof(unsigned)];
    memcpy(words, &value, sizeof(A));
#pragma unroll
    for (unsigned& word : words)
      word = __shfl_xor_sync(0xffffffffu, word, lanes);
    memcpy(&value, words, sizeof(A));
    return value;
  }
}

/// join_group() of a warp.
template <class A, class Join>
__device__ A join_warp(A value, const Join& join) {
#pragma unroll
  for (int lanes = k_warp / 2; lanes > 0; lanes /= 2)
    value = join(value, shuffle_xor(value, lanes));
  return value;
}

/// join_group() of a block of so many warps.
template <int Warps, class A, class Join>
__device__ A join_block(A value, const Join& join) {
  value = join_warp(value, join);
  __shared__ A totals[Warps];
  if (threadIdx.x % k_warp == 0)
    totals[threadIdx.x / k_warp] = value;
  __syncthreads();
  value = totals[0];
#pragma unroll
  for (int warp = 1; warp < Warps; ++warp)
    value = join(value, totals[warp]);
  __syncthreads();  // the next call writes again
  return value;
}

/// Joins `value` of all threads of a group; every thread gets the result, with the same bits. All threads of a group
/// of 32 call together, all threads of the block where the group is one. `join` is associative up to rounding and
/// symmetric; the order is fixed.
template <class A, class Join>
__device__ A join_group(A value, int width, const Join& join) {
  if (width == 1)
    return value;
  return width == k_warp ? join_warp(value, join) : join_block<k_group_block / k_warp>(value, join);
}

/// No thread of a group goes on before all are here; who calls together: as above.
__device__ inline void sync_group(int width) {
  if (width == k_warp)
    __syncwarp();
  else if (width > 1)
    __syncthreads();
}

/// Which group this thread is in, out of how many, and its place there.
struct Group {
  std::int64_t index;
  std::int64_t count;
  int lane;

  __device__ explicit Group(int width)
      : index((static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) >> shift_of(width)),
        count((static_cast<std::int64_t>(gridDim.x) * blockDim.x) >> shift_of(width)),
        lane(static_cast<int>(threadIdx.x) & (width - 1)) {}

 private:
  // A division of 64 bits costs more than most of what a thread does.
  static __device__ int shift_of(int width) { return width == 1 ? 0 : width == k_warp ? 5 : 8; }
  static_assert(k_warp == 1 << 5 && k_group_block == 1 << 8);
};

/// Blocks for `groups` groups of `width` threads; kernels loop for what is beyond the cap.
inline unsigned blocks_for_groups(std::int64_t groups, int width) noexcept {
  const std::int64_t per_block = k_group_block / width;
  const std::int64_t blocks = (groups + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > (1 << 20) ? (1 << 20) : blocks);
}

/// Threads for a group whose members share `terms` terms.
inline int group_width(std::int64_t terms) noexcept {
  return terms < 64 ? 1 : terms <= 1024 ? k_warp : k_group_block;
}

/// The same for rows of neighbours: where there are enough of them a warp does with a longer one, for it joins without
/// a barrier.
inline int row_width(std::int64_t rows, std::int64_t terms) noexcept {
  return terms <= 1024 || (rows >= 8192 && terms <= 16384) ? k_warp : k_group_block;
}

}  // namespace sluice::detail
