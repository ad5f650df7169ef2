#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <sluice/operator/times_plus.h>

// Numbers whose sums, products, quotients and roots are rounded one by one on every device, and functions made of those
// alone: what a CPU and a GPU compute with them is the same bit by bit, which the C library's and CUDA's functions are
// not.
namespace sluice::detail {

struct Exact {
  double value = 0;

  constexpr Exact() = default;
  SLUICE_HD constexpr Exact(double of) noexcept : value(of) {}  // NOLINT: numbers are of it

  SLUICE_HD friend Exact operator+(Exact a, Exact b) noexcept { return plus(a.value, b.value); }
  SLUICE_HD friend Exact operator-(Exact a, Exact b) noexcept { return minus(a.value, b.value); }
  SLUICE_HD friend Exact operator*(Exact a, Exact b) noexcept {
#ifdef __CUDA_ARCH__
    return __dmul_rn(a.value, b.value);
#else
    return a.value * b.value;
#endif
  }
  SLUICE_HD friend Exact operator/(Exact a, Exact b) noexcept {
    return a.value / b.value;
  }
  SLUICE_HD friend Exact operator-(Exact a) noexcept {
    return -a.value;
  }
  SLUICE_HD friend bool operator<(Exact a, Exact b) noexcept {
    return a.value < b.value;
  }
  SLUICE_HD friend bool operator>(Exact a, Exact b) noexcept {
    return a.value > b.value;
  }
  SLUICE_HD friend bool operator<=(Exact a, Exact b) noexcept {
    return a.value <= b.value;
  }
  SLUICE_HD friend bool operator>=(Exact a, Exact b) noexcept {
    return a.value >= b.value;
  }
};

SLUICE_HD inline Exact exact_root(Exact x) noexcept {
  return std::sqrt(x.value);
}

/// What exact_log() is made of, in vectors too (simd/random.cpp): the same steps in the same order.
struct ExactLog {
  static constexpr double k_most_mantissa = 1.4142135623730951;
  static constexpr int k_last_term = 23;  // 1 / 23, then 1 / 21 and so on to 1 / 3
  // log 2 in two parts, of which e times the first is exact.
  static constexpr double k_two_high = 6.93147180369123816490e-01, k_two_low = 1.90821492927058770002e-10;
};

/// Of x > 0 that is not denormal, to about an ulp: x = 2^e * m with m about 1, log m = 2 atanh((m - 1) / (m + 1)) by
/// its series.
SLUICE_HD inline Exact exact_log(Exact x) noexcept {
  constexpr std::uint64_t k_mantissa = 0xfffffffffffffu, k_one = 0x3ff0000000000000u;
  const auto bits = std::bit_cast<std::uint64_t>(x.value);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  Exact m = std::bit_cast<double>((bits & k_mantissa) | k_one);
  if (m > ExactLog::k_most_mantissa) {
    m = m * 0.5;
    ++exponent;
  }
  const Exact s = (m - 1.0) / (m + 1.0), z = s * s;
  Exact series = 1.0 / ExactLog::k_last_term;
  for (int k = ExactLog::k_last_term - 2; k >= 3; k -= 2)
    series = series * z + 1.0 / k;
  const Exact e = static_cast<double>(exponent), twice = 2.0 * s;
  return e * ExactLog::k_two_high + (twice + (twice * z * series + e * ExactLog::k_two_low));
}

/// 0 below -708, where e^x would be denormal; x at most 709.
SLUICE_HD inline Exact exact_exp(Exact x) noexcept {
  if (x < -708.0)
    return 0.0;
  const double whole = std::floor((x * 1.4426950408889634 + 0.5).value);
  const Exact rest = (x - whole * Exact(6.93147180369123816490e-01)) - whole * Exact(1.90821492927058770002e-10);
  Exact series = 1.0;
  for (int k = 14; k >= 1; --k)
    series = series * rest / static_cast<double>(k) + 1.0;
  const auto half = static_cast<std::int64_t>(whole) / 2, other = static_cast<std::int64_t>(whole) - half;
  const auto power = [](std::int64_t of) { return std::bit_cast<double>(static_cast<std::uint64_t>(of + 1023) << 52); };
  return series * power(half) * power(other);
}

/// log(1 + x) - x for |x| < 0.25, by its series: a difference of the two would lose its digits.
SLUICE_HD inline Exact exact_log1p_minus(Exact x) noexcept {
  Exact series = 0.0;
  for (int n = 26; n >= 2; --n)
    series = series * x + (n % 2 == 0 ? -1.0 : 1.0) / n;
  return series * x * x;
}

}  // namespace sluice::detail
