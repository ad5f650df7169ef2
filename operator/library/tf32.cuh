#pragma once

#include <cstdint>
#include <cstring>

#include <sluice/ndarray/neighbours.cuh>
#include <sluice/operator/library/tensor_core.cuh>

namespace sluice::detail {

/// As products of floats take it, and back.
__device__ inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
__device__ inline float number_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Rounded to the nearest number of TF32, where the product alone would cut off.
__device__ inline std::uint32_t as_tf32(float value) {
#if SLUICE_TENSOR_CORES
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#else
  constexpr std::uint32_t k_half = 1u << 12, k_cut = (1u << 13) - 1, k_infinite = 0x7f800000u, k_sign = 1u << 31;
  const std::uint32_t bits = bits_of(value);
  return (bits & ~k_sign) < k_infinite ? (bits + k_half) & ~k_cut : bits;
#endif
}

/// The same of a piece in shared memory, where it stays.
__device__ inline void round_piece(float* piece) {
  auto* const there = reinterpret_cast<Neighbours<float, k_piece_bytes / 4>*>(piece);
  Neighbours<float, k_piece_bytes / 4> numbers = *there;
#pragma unroll
  for (float& number : numbers.at)
    number = number_of(as_tf32(number));
  *there = numbers;
}

}  // namespace sluice::detail
