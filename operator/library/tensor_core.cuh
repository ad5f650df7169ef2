#pragma once

// What a warp does with tensor cores, and how a block fetches ahead, as PTX has it from sm_80 on; where code is
// compiled for something else (older GPUs, the host's simulation) the same numbers come by shuffles. What sm_90a has
// for four warps together is warpgroup.cuh.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/half.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define SLUICE_TENSOR_CORES 1
#else
#define SLUICE_TENSOR_CORES 0
#endif

namespace sluice::detail {

inline constexpr unsigned k_whole_warp = 0xffffffffu;
inline constexpr int k_piece_bytes = 16;  // what is fetched at once

/// `Bytes` of shared memory, which the launch must have asked for. One a kernel.
template <int Bytes>
__device__ unsigned char* shared_room() {
#ifdef __CUDA_ARCH__
  extern __shared__ __align__(1024) unsigned char room[];
#else
  alignas(k_piece_bytes) __shared__ std::uint64_t words[Bytes / sizeof(std::uint64_t)];
  auto* const room = reinterpret_cast<unsigned char*>(words);
#endif
  return room;
}

/// Whether blocks of a GPU can have so many bytes of shared memory, those that a kernel declares among them.
inline bool has_shared(int gpu, int bytes) {
  constexpr int k_everywhere = 48 << 10;
  if (bytes <= k_everywhere)
    return true;
  int most = 0;
  cuda::cuda_check(
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), "cudaDeviceGetAttribute");
  return bytes <= most;
}

/// Lets launches of a kernel on a GPU ask for so many bytes of shared memory; beyond 48 KiB it has to be said before.
template <auto kernel, int bytes>
void allow_shared(int gpu) {
  static std::atomic<std::uint64_t> allowed;
  const std::uint64_t bit = gpu < 64 ? std::uint64_t{1} << gpu : 0;
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0)
    return;
  cuda::cuda_check(
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
      "cudaFuncSetAttribute");
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

/// Begins to bring the first `bytes` of a piece into shared memory and zeros behind them; nothing else is read.
__device__ inline void fetch_piece(void* to, const void* from, int bytes) {
#if SLUICE_TENSOR_CORES
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
#else
  std::memset(to, 0, k_piece_bytes);
  if (bytes > 0)
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
#endif
}
/// Begins to bring half a piece into shared memory.
__device__ inline void fetch_half_piece(void* to, const void* from) {
#if SLUICE_TENSOR_CORES
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from) : "memory");
#else
  std::memcpy(to, from, k_piece_bytes / 2);
#endif
}
/// Begins to bring the line of memory that holds `from` into the GPU's cache.
__device__ inline void fetch_line([[maybe_unused]] const void* from) {
#if SLUICE_TENSOR_CORES
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#endif
}
/// What a thread has begun to fetch since it last said so is a group.
__device__ inline void end_fetches() {
#if SLUICE_TENSOR_CORES
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until no more than `Left` groups of this thread, the last ones, are on their way.
template <int Left>
__device__ void await_fetches() {
#if SLUICE_TENSOR_CORES
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
#endif
}

/// Four matrices of 8 x 8 numbers of two bytes: lane 8 i + r names row r of matrix i in shared memory, and gets the
/// numbers 2 (lane % 4) and the next one of row lane / 4 of each.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
#if SLUICE_TENSOR_CORES
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
#else
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < 4; ++i) {
    const auto named = __shfl_sync(k_whole_warp, reinterpret_cast<std::uintptr_t>(row), 8 * i + lane / 4);
    std::memcpy(&to[i], reinterpret_cast<const unsigned char*>(named) + 4 * (lane % 4), 4);
  }
#endif
}

#if SLUICE_TENSOR_CORES && __CUDA_ARCH__ >= 900
/// The other way: what a lane has of four matrices goes to the rows in shared memory that lanes name so.
__device__ inline void store_matrices(void* row, const std::uint32_t (&from)[4]) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
               "r"(from[0]),
               "r"(from[1]),
               "r"(from[2]),
               "r"(from[3])
               : "memory");
}
#endif

/// sums += a b of 16 x 16 times 16 x 8 numbers of a two-byte type T, added up in float: `a` as load_matrices() gives
/// rows 0 to 7 and 8 to 15 of its first eight columns, then of the others; `b` likewise of its columns, which lie as
/// rows. Of the result a lane has columns 2 (lane % 4) and the next one of row lane / 4, then of the row 8 below. Of
/// floats half as many columns of `a`, each number rounded as TF32 is.
template <class T>
__device__ void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t* b) {
  static_assert(std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, float>);
#if SLUICE_TENSOR_CORES
  if constexpr (std::is_same_v<T, float>) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else if constexpr (std::is_same_v<T, Half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int k_of_word = 4 / static_cast<int>(sizeof(T));
  const auto number = [](std::uint32_t word, int which) {
    const std::uint32_t bits = word >> (which * 16);
    T value;
    std::memcpy(static_cast<void*>(&value), &bits, sizeof(value));
    return static_cast<float>(value);
  };
  for (int half = 0; half < 2; ++half) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      const std::uint32_t above = __shfl_sync(k_whole_warp, a[2 * half], lane / 4 * 4 + quarter);
      const std::uint32_t below = __shfl_sync(k_whole_warp, a[2 * half + 1], lane / 4 * 4 + quarter);
      const std::uint32_t left = __shfl_sync(k_whole_warp, b[half], lane % 4 * 8 + quarter);
      const std::uint32_t right = __shfl_sync(k_whole_warp, b[half], lane % 4 * 8 + 4 + quarter);
      for (int which = 0; which < k_of_word; ++which) {
        sums[0] += number(above, which) * number(left, which);
        sums[1] += number(above, which) * number(right, which);
        sums[2] += number(below, which) * number(left, which);
        sums[3] += number(below, which) * number(right, which);
      }
    }
  }
#endif
}

}  // namespace sluice::detail
