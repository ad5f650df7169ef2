#pragma once

#include <cmath>
#include <limits>

#include <sluice/operator/linalg/steps.h>

// What is read off a triangular matrix, on CPUs and GPUs alike.
namespace sluice::detail {

/// The place of the first 0 on the diagonal, counted from 1; 0 for none.
template <class T>
SLUICE_HD int first_zero(const T* matrix, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (matrix[i * (n + 1)] == T(0))
      return static_cast<int>(i + 1);
  }
  return 0;
}

/// The determinant of one matrix from its factors: a row that went elsewhere turns the sign.
template <class T>
SLUICE_HD void write_determinant(const Determinants& wanted, std::int64_t matrix) {
  const std::int64_t n = wanted.n;
  const T* const lu = static_cast<const T*>(wanted.lu) + matrix * n * n;
  const std::int64_t* const pivots = wanted.pivots + matrix * n;
  T product = 1, sign = 1, logarithm = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T pivot = lu[i * (n + 1)];
    const bool turns = (pivots[i] != i + 1) != (pivot < T(0));
    product *= pivots[i] != i + 1 ? -pivot : pivot;
    sign = pivot == T(0) ? T(0) : turns ? -sign : sign;
    if (wanted.logarithm != nullptr)
      logarithm += std::log(pivot < T(0) ? -pivot : pivot);
  }
  if (n > 0 && wanted.bad[matrix] != 0)
    product = sign = logarithm = std::numeric_limits<T>::quiet_NaN();
  if (wanted.det != nullptr)
    static_cast<T*>(wanted.det)[matrix] = product;
  if (wanted.sign != nullptr)
    static_cast<T*>(wanted.sign)[matrix] = sign;
  if (wanted.logarithm != nullptr)
    static_cast<T*>(wanted.logarithm)[matrix] = logarithm;
}

}  // namespace sluice::detail
