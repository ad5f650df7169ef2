#include <cstring>

#include <sluice/operator/matmul/gemm_kernel.h>

namespace sluice::detail {
namespace {

// Rows x 2 vectors of accumulators stay in registers; the caller's target says what a vector of `Bytes` becomes.
template <class Acc, int Rows, int Bytes>
[[gnu::always_inline]] inline void multiply_panels(
    std::int64_t k, const Acc* a, const Acc* b, Acc* tile, std::int64_t tile_stride) {
  typedef Acc Vector __attribute__((vector_size(Bytes)));
  constexpr int width = Bytes / sizeof(Acc);
  Vector sums[Rows][2] = {};
  for (std::int64_t step = 0; step < k; ++step) {
    Vector left, right;
    std::memcpy(&left, b, Bytes);
    std::memcpy(&right, b + width, Bytes);
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      sums[row][0] += a[row] * left;
      sums[row][1] += a[row] * right;
    }
    a += Rows;
    b += 2 * width;
  }
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
    for (int half = 0; half < 2; ++half) {
      Acc* at = tile + row * tile_stride + half * width;
      Vector before;
      std::memcpy(&before, at, Bytes);
      before += sums[row][half];
      std::memcpy(at, &before, Bytes);
    }
  }
}

template <class Acc>
void multiply_narrow(std::int64_t k, const Acc* a, const Acc* b, Acc* tile, std::int64_t stride) {
  multiply_panels<Acc, 6, 16>(k, a, b, tile, stride);
}

#if defined(__x86_64__)
template <class Acc>
[[gnu::target("avx2,fma")]] void multiply_avx2(
    std::int64_t k, const Acc* a, const Acc* b, Acc* tile, std::int64_t stride) {
  multiply_panels<Acc, 6, 32>(k, a, b, tile, stride);
}

template <class Acc>
[[gnu::target("avx512f,avx512dq,prefer-vector-width=512")]] void multiply_avx512(
    std::int64_t k, const Acc* a, const Acc* b, Acc* tile, std::int64_t stride) {
  multiply_panels<Acc, 12, 64>(k, a, b, tile, stride);
}
#endif

template <class Acc>
GemmKernel<Acc> choose() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return {12, 2 * 64 / static_cast<int>(sizeof(Acc)), multiply_avx512<Acc>};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {6, 2 * 32 / static_cast<int>(sizeof(Acc)), multiply_avx2<Acc>};
#endif
  return {6, 2 * 16 / static_cast<int>(sizeof(Acc)), multiply_narrow<Acc>};
}

}  // namespace

template <class Acc>
const GemmKernel<Acc>& gemm_kernel() noexcept {
  static const GemmKernel<Acc> kernel = choose<Acc>();
  return kernel;
}

template const GemmKernel<float>& gemm_kernel() noexcept;
template const GemmKernel<double>& gemm_kernel() noexcept;
template const GemmKernel<std::uint32_t>& gemm_kernel() noexcept;
template const GemmKernel<std::uint64_t>& gemm_kernel() noexcept;

}  // namespace sluice::detail
