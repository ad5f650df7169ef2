#pragma once

#include <cstdint>

namespace sluice::simd {

/// A product in parts of numbers near 1 and powers of two, number[k] * 2^exponent[k].
struct ProductParts {
  static constexpr int k_parts = 8;

  double number[k_parts];
  std::int64_t exponent[k_parts];
};

/// What the gradient of a product does to rows of floats, in the vectors of simd::target().
struct FactorRows {
  /// The product of n floats; false, and nothing of `parts` holds, if one of them is 0, infinite or a NaN.
  bool (*product)(const float* x, std::int64_t n, ProductParts* parts);
  /// to[i] = dy * (number / x[i] * scale[0] * scale[1]), rounded once from a double.
  void (*others)(const float* x, std::int64_t n, double number, const double (&scale)[2], double dy, float* to);
};

/// Null if there are none: the plain loops serve.
const FactorRows* factor_rows() noexcept;

}  // namespace sluice::simd
