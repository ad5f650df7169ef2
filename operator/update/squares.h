#pragma once

#include <cstdint>

// Sums on a CPU, the same however many threads there are.
namespace sluice::detail {

/// Elements that are added up before the next ones are: parts of an array are cut by it.
inline constexpr std::int64_t k_per_part = 16384;

/// Of f(value), in float64 and eight lanes, whatever vectors there are.
template <class C, class F>
double sum_in_lanes(const C* values, std::int64_t n, const F& f) noexcept {
  constexpr std::int64_t k_lanes = 8;
  double lanes[k_lanes] = {};
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
    for (std::int64_t lane = 0; lane < k_lanes; ++lane)
      lanes[lane] += f(static_cast<double>(values[i + lane]));
  }
  for (; i < n; ++i)
    lanes[i % k_lanes] += f(static_cast<double>(values[i]));
  double sum = 0;
  for (const double lane : lanes)
    sum += lane;
  return sum;
}

template <class C>
double sum_of_squares(const C* values, std::int64_t n) noexcept {
  return sum_in_lanes(values, n, [](double value) { return value * value; });
}
template <class C>
double sum_in_double(const C* values, std::int64_t n) noexcept {
  return sum_in_lanes(values, n, [](double value) { return value; });
}

}  // namespace sluice::detail
