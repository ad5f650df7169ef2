#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

// Steps over small matrices on a CPU: a library's calls cost more than what is done there.
namespace sluice::detail {

/// Rows of the largest matrix that factor_small() is for: beyond, libraries are as fast.
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

}  // namespace sluice::detail
