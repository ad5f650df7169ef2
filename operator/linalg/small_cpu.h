#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

// Steps over small matrices on a CPU: a library's calls cost more than what is done there.
namespace sluice::detail {

/// Rows of the largest matrix that these are for: beyond, libraries are as fast.
inline constexpr std::int64_t k_small_factors = 32;

/// What getrf does to one matrix: columns first, rows counted from 1, the first pivot that is 0 from 1 or 0.
template <class T>
int factor_small(T* a, std::int64_t n, std::int64_t* pivots) {
  int zero = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    T* const column = a + k * n;
    std::int64_t best = k;
    T most = std::abs(column[k]);
    for (std::int64_t i = k + 1; i < n; ++i) {
      const T here = std::abs(column[i]);
      best = here > most ? i : best;
      most = here > most ? here : most;
    }
    pivots[k] = best + 1;
    if (most == T(0)) {
      zero = zero == 0 ? static_cast<int>(k + 1) : zero;
      continue;
    }
    for (std::int64_t j = 0; best != k && j < n; ++j)
      std::swap(a[j * n + k], a[j * n + best]);
    const T pivot = column[k];
    for (std::int64_t i = k + 1; i < n; ++i)
      column[i] /= pivot;
    for (std::int64_t j = k + 1; j < n; ++j) {
      T* const other = a + j * n;
      const T times = other[k];
      for (std::int64_t i = k + 1; i < n; ++i)
        other[i] -= times * column[i];
    }
  }
  return zero;
}

/// What potrf does to the lower triangle of a matrix that lies row by row: the first pivot that is not positive from 1,
/// or 0.
template <class T>
int root_small(T* a, std::int64_t n) {
  T column[k_small_factors];
  for (std::int64_t k = 0; k < n; ++k) {
    const T pivot = a[k * n + k];
    if (!(pivot > T(0)))
      return static_cast<int>(k + 1);
    const T root = std::sqrt(pivot), inverse = T(1) / root;
    a[k * n + k] = root;
    for (std::int64_t i = k + 1; i < n; ++i)
      column[i] = a[i * n + k] *= inverse;
    for (std::int64_t i = k + 1; i < n; ++i) {
      T* const row = a + i * n;
      for (std::int64_t j = k + 1; j <= i; ++j)
        row[j] -= column[i] * column[j];
    }
  }
  return 0;
}

}  // namespace sluice::detail
