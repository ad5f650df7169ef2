#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif

namespace sluice {

namespace detail {

// Rounds to nearest even; overflow gives infinity, underflow denormals.
SLUICE_HD inline std::uint16_t half_bits(float value) noexcept {
#ifdef __CUDA_ARCH__
  return __half_as_ushort(__float2half_rn(value));
#else
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<std::uint16_t>(sign | 0x7e00u);  // NaN
  if (magnitude >= 0x477ff000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // denormal: let the float adder do the rounding
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
#endif
}

SLUICE_HD inline float half_value(std::uint16_t bits) noexcept {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(bits));
#else
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  const std::uint32_t wide = magnitude << 13;
  // No float on the way is a denormal, which might be read as zero: denormal halves get their leading 1 and lose it.
  const bool denormal = magnitude < 0x0400u;
  const float value =
      std::bit_cast<float>(wide + (denormal ? 0x38800000u : 0x38000000u)) - (denormal ? 0x1p-14f : 0.0f);
  const std::uint32_t infinite = 0x7f800000u | wide;  // or NaN
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00u ? infinite : std::bit_cast<std::uint32_t>(value)));
#endif
}

SLUICE_HD inline std::uint16_t bfloat_bits(float value) noexcept {
#ifdef __CUDA_ARCH__
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

SLUICE_HD inline float bfloat_value(std::uint16_t bits) noexcept {
#ifdef __CUDA_ARCH__
  return __bfloat162float(__ushort_as_bfloat16(bits));
#else
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
#endif
}

}  // namespace detail

/// IEEE 754 binary16: storage only, arithmetic happens in float.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  SLUICE_HD explicit Half(float value) noexcept : bits(detail::half_bits(value)) {}
  SLUICE_HD operator float() const noexcept { return detail::half_value(bits); }
};

/// The upper half of a float: storage only, arithmetic happens in float.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  SLUICE_HD explicit BFloat16(float value) noexcept : bits(detail::bfloat_bits(value)) {}
  SLUICE_HD operator float() const noexcept { return detail::bfloat_value(bits); }
};

}  // namespace sluice
