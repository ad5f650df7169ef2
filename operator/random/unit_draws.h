#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <sluice/operator/random/draws.h>
#include <sluice/operator/simd/random.h>

// Distributions of one number of the unit interval an element, some elements at a time: the bits of what draws.h makes
// of each, logarithms in vectors.
namespace sluice::detail {

/// Of n unit numbers in u, which become what is drawn; n is a multiple of RandomRows::k_group, `room` as long.
template <class Draw>
struct UnitDraw {
  static constexpr bool exists = false;
};

template <>
struct UnitDraw<ExponentialDraw> {
  static constexpr bool exists = true;
  static void draw(const simd::RandomRows& rows, const DrawParameters& p, std::int64_t n, double* u, double*) {
    rows.log(u, n);
    for (std::int64_t i = 0; i < n; ++i)
      u[i] = -u[i] * p.at[0];
  }
};

template <>
struct UnitDraw<LaplaceDraw> {
  static constexpr bool exists = true;
  static void draw(const simd::RandomRows& rows, const DrawParameters& p, std::int64_t n, double* u, double* room) {
    for (std::int64_t i = 0; i < n; ++i) {
      room[i] = u[i] - 0.5;
      u[i] = 2.0 * std::min(u[i], 1.0 - u[i]);
    }
    rows.log(u, n);
    // Logarithms are negative: below the middle they are added, beyond it taken off, without a branch.
    for (std::int64_t i = 0; i < n; ++i)
      u[i] = p.at[0] + std::copysign(p.at[1] * u[i], room[i]);
  }
};

template <>
struct UnitDraw<GumbelDraw> {
  static constexpr bool exists = true;
  static void draw(const simd::RandomRows& rows, const DrawParameters& p, std::int64_t n, double* u, double*) {
    rows.log(u, n);
    for (std::int64_t i = 0; i < n; ++i)
      u[i] = -u[i];
    rows.log(u, n);
    for (std::int64_t i = 0; i < n; ++i)
      u[i] = p.at[0] - p.at[1] * u[i];
  }
};

}  // namespace sluice::detail
