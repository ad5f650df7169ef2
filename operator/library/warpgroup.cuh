#pragma once

// Products of whole warpgroups (four warps) of operands in shared memory, as PTX has them for sm_90a: some 1.7 times
// what warps alone do there. Operands are lines of 128 bytes, terms of a row or column one behind the other, whose
// pieces of 16 bytes stand as place_in_tile() says, from multiples of 1024 bytes on.
#include <cstdint>
#include <type_traits>

#include <sluice/operator/library/tensor_core.cuh>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SLUICE_WARPGROUPS 1
#else
#define SLUICE_WARPGROUPS 0
#endif

#if SLUICE_WARPGROUPS
namespace sluice::detail {

/// What this thread has written to shared memory is for products to read, once all have met.
__device__ inline void show_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// Goes before products.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Products begun since this was said last are a group.
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits for products that add to `sums`, but for the last `Left` groups.
template <int Left, int N>
__device__ void await_products(float (&sums)[N]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
#pragma unroll
  for (float& sum : sums)
    asm volatile("" : "+f"(sum)::"memory");  // is looked at from here on, not before
}

/// A warpgroup goes on with so many registers a thread, a multiple of 8: fewer, or of what others gave back more.
template <int Registers>
__device__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

/// Lines from `first` on, as a product is told of them.
__device__ inline std::uint64_t lines_at(const void* first) {
  constexpr std::uint64_t k_eight_lines = 1024 / 16, k_pieces_change_places = 1;
  const std::uint64_t at = __cvta_generic_to_shared(first);
  return (at & 0x3ffff) >> 4 | std::uint64_t{1} << 16 | k_eight_lines << 32 | k_pieces_change_places << 62;
}

/// Squares of eight lines of 16 bytes one behind the other, from `first` on, which may begin at any piece, so that
/// squares overlap: how many bytes on the next one of terms stands, and the next one of rows or columns. Lines are
/// those of rows or columns; for turned products of terms.
__device__ inline std::uint64_t squares_at(const void* first, unsigned next_terms, unsigned next_rows) {
  const std::uint64_t at = __cvta_generic_to_shared(first);
  return (at & 0x3ffff) >> 4 | std::uint64_t{next_terms >> 4} << 16 | std::uint64_t{next_rows >> 4} << 32;
}
// The operands of an instruction that adds to 16, 32 or 64 numbers a lane.
#define SLUICE_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define SLUICE_SUMS_16(i) SLUICE_SUMS_4(i), SLUICE_SUMS_4(i + 4), SLUICE_SUMS_4(i + 8), SLUICE_SUMS_4(i + 12)
#define SLUICE_SUMS_32(i) SLUICE_SUMS_16(i), SLUICE_SUMS_16(i + 16)
#define SLUICE_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SLUICE_NAMES_32                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SLUICE_NAMES_64                                                              \
  SLUICE_NAMES_32                                                                    \
  ", "                                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SLUICE_MULTIPLY_64(depth, type, turned)                                                        \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k" depth ".f32." type "." type " {" SLUICE_NAMES_32 \
               "}, %32, %33, 1, 1, 1" turned ";"                                                       \
               : SLUICE_SUMS_32(0)                                                                     \
               : "l"(a), "l"(b))
#define SLUICE_MULTIPLY_TURNED_32(type)                                                         \
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type " {" SLUICE_NAMES_16 \
               "}, %16, %17, 1, 1, 1, 1, 1;"                                                    \
               : SLUICE_SUMS_16(0)                                                              \
               : "l"(a), "l"(b))
#define SLUICE_MULTIPLY_128(type)                                                                \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" SLUICE_NAMES_64 \
               "}, %64, %65, 1, 1, 1, 0, 0;"                                                     \
               : SLUICE_SUMS_32(0), SLUICE_SUMS_32(32)                                           \
               : "l"(a), "l"(b))

/// sums += a b of 64 x 16 times 16 x 64 numbers of a two-byte type T, or of 64 x 8 times 8 x 64 floats rounded as TF32
/// is. A lane has, of every eight columns, what multiply_add() gives it of them.
template <class T>
__device__ void multiply_lines(float (&sums)[32], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, float>) {
    SLUICE_MULTIPLY_64("8", "tf32", "");
  } else if constexpr (std::is_same_v<T, Half>) {
    SLUICE_MULTIPLY_64("16", "f16", ", 0, 0");
  } else {
    SLUICE_MULTIPLY_64("16", "bf16", ", 0, 0");
  }
}
/// The same of 128 columns, of two-byte types.
template <class T>
__device__ void multiply_lines(float (&sums)[64], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, Half>) {
    SLUICE_MULTIPLY_128("f16");
  } else {
    SLUICE_MULTIPLY_128("bf16");
  }
}

/// sums += a b of 64 x 16 times 16 x 32 numbers of a two-byte type, whose lines are of rows and of columns.
template <class T>
__device__ void multiply_turned(float (&sums)[16], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, Half>) {
    SLUICE_MULTIPLY_TURNED_32("f16");
  } else {
    SLUICE_MULTIPLY_TURNED_32("bf16");
  }
}

#undef SLUICE_SUMS_4
#undef SLUICE_SUMS_16
#undef SLUICE_SUMS_32
#undef SLUICE_NAMES_16
#undef SLUICE_NAMES_32
#undef SLUICE_NAMES_64
#undef SLUICE_MULTIPLY_64
#undef SLUICE_MULTIPLY_TURNED_32
#undef SLUICE_MULTIPLY_128

}  // namespace sluice::detail
#endif
