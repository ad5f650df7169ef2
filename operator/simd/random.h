#pragma once

#include <cstdint>

#include <sluice/engine/engine.h>

namespace sluice::simd {

/// Random numbers in the vectors of simd::target(), n at a time: a multiple of k_group.
struct RandomRows {
  static constexpr std::int64_t k_group = 64;

  /// The words of n / 4 Philox blocks from `block` on: the bits of detail::philox().
  void (*words)(const RandomBlock& random, std::uint64_t block, std::int64_t n, std::uint32_t* to);
  /// unit number * span + low, at most `below`: the bits of detail::UniformDraw<float>.
  void (*uniform)(const std::uint32_t* words, float low, float span, float below, std::int64_t n, float* to);
  /// As detail::NormalDraw<float>; its logarithm, sine and cosine may differ from the C library's in the last bits.
  void (*normal)(const std::uint32_t* words, float mean, float deviation, std::int64_t n, float* to);
  /// 0 where the word is below `threshold`, otherwise x * scale: the same bits everywhere.
  void (*drop)(
      const std::uint32_t* words, std::uint64_t threshold, const float* x, float scale, std::int64_t n, float* to);
  /// x[i] = detail::exact_log(x[i]), to the bit.
  void (*log)(double* x, std::int64_t n);
};

/// Null if there are none: the plain loops serve.
const RandomRows* random_rows() noexcept;

}  // namespace sluice::simd
