#pragma once

#include <cstdint>

// Sums of squares on a CPU, the same however many threads there are.
namespace sluice::detail {

/// Elements whose squares are added up before those of the next are: parts of an array are cut by it.
inline constexpr std::int64_t k_per_part = 16384;

/// In float64 and eight lanes, whatever vectors there are.
template <class C>
double sum_of_squares(const C* values, std::int64_t n) noexcept {
  constexpr std::int64_t k_lanes = 8;
  double lanes[k_lanes] = {};
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
    for (std::int64_t lane = 0; lane < k_lanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (; i < n; ++i)
    lanes[i % k_lanes] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0;
  for (const double lane : lanes)
    sum += lane;
  return sum;
}

/// The same of the values themselves.
template <class C>
double sum_of(const C* values, std::int64_t n) noexcept {
  constexpr std::int64_t k_lanes = 8;
  double lanes[k_lanes] = {};
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
    for (std::int64_t lane = 0; lane < k_lanes; ++lane)
      lanes[lane] += static_cast<double>(values[i + lane]);
  }
  for (; i < n; ++i)
    lanes[i % k_lanes] += static_cast<double>(values[i]);
  double sum = 0;
  for (const double lane : lanes)
    sum += lane;
  return sum;
}

}  // namespace sluice::detail
