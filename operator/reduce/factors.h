#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/half.h>

// Products that no magnitude leaves, and of every factor the product of the others: one arithmetic for CPU and GPU.
namespace sluice::detail {

/// number * 2^exponent, the number's magnitude at least 1 and less than 2.
struct Scaled {
  double number = 1;
  std::int64_t exponent = 0;

  Scaled() = default;
  SLUICE_HD Scaled(double near, std::int64_t power) noexcept : number(near), exponent(power) {}
  /// Of a normal number.
  SLUICE_HD explicit Scaled(double x) noexcept {
    constexpr std::uint64_t k_exponent_bits = std::uint64_t{0x7ff} << 52, k_one_bits = std::uint64_t{1023} << 52;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    exponent = static_cast<std::int64_t>((bits & k_exponent_bits) >> 52) - 1023;
    number = std::bit_cast<double>((bits & ~k_exponent_bits) | k_one_bits);
  }

  SLUICE_HD static Scaled joined(const Scaled& a, const Scaled& b) noexcept {
    Scaled product(a.number * b.number);
    product.exponent += a.exponent + b.exponent;
    return product;
  }
  SLUICE_HD static double power_of_two(std::int64_t exponent) noexcept {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }
  SLUICE_HD static bool is_normal(double x) noexcept {
    return std::abs(x) >= std::numeric_limits<double>::min() && std::abs(x) <= std::numeric_limits<double>::max();
  }
  /// Of a factor: a zero or a NaN counts as 1, an infinity as its sign.
  SLUICE_HD static Scaled of_factor(double x) noexcept {
    if (is_normal(x))
      return Scaled(x);
    if (x == 0 || x != x)
      return {1, 0};
    if (std::abs(x) > std::numeric_limits<double>::max())
      return {x < 0 ? -1.0 : 1.0, 0};
    const Scaled denormal(x * 0x1p54);
    return {denormal.number, denormal.exponent - 54};
  }
};

/// What is known of a row: how many of its factors are zero and infinite, and the product of the others, signs of
/// infinities with them.
struct Factors {
  Scaled product;
  std::int64_t zeros = 0, infinities = 0, nans = 0;

  Factors() = default;
  SLUICE_HD void count(double x) noexcept {
    zeros += x == 0 ? 1 : 0;
    infinities += std::abs(x) == std::numeric_limits<double>::infinity() ? 1 : 0;
    nans += x != x ? 1 : 0;
  }
  SLUICE_HD void take(double x) noexcept {
    if (!Scaled::is_normal(x))
      count(x);
    product = Scaled::joined(product, Scaled::of_factor(x));
  }
  SLUICE_HD static Factors joined(const Factors& a, const Factors& b) noexcept {
    Factors both;
    both.product = Scaled::joined(a.product, b.product);
    both.zeros = a.zeros + b.zeros;
    both.infinities = a.infinities + b.infinities;
    both.nans = a.nans + b.nans;
    return both;
  }

  /// The product of all but x, one of them, times dy.
  SLUICE_HD double others(double x, double dy) const noexcept {
    constexpr double k_infinity = std::numeric_limits<double>::infinity(),
                     k_nan = std::numeric_limits<double>::quiet_NaN();
    if (nans != 0)
      return dy * k_nan;
    const Scaled own = Scaled::of_factor(x);
    const bool beside_zero = zeros > (x == 0 ? 1 : 0), infinite = infinities > (std::abs(x) == k_infinity ? 1 : 0);
    const double number = product.number / own.number;
    if (beside_zero)
      return dy * (infinite ? k_nan : 0.0);
    return infinite ? dy * (number < 0 ? -k_infinity : k_infinity) : dy * times(number, own);
  }
  /// The same of normal numbers alone.
  SLUICE_HD double plain_others(double x, double dy) const noexcept {
    const Scaled own(x);
    return dy * times(product.number / own.number, own);
  }

 private:
  // In two steps, for a power of two need not fit where the product does.
  SLUICE_HD double times(double number, const Scaled& own) const noexcept {
    constexpr std::int64_t k_most = 2044;
    const std::int64_t power = product.exponent - own.exponent;
    const std::int64_t exponent = power < -k_most ? -k_most : power > k_most ? k_most : power, half = exponent / 2;
    return number * Scaled::power_of_two(half) * Scaled::power_of_two(exponent - half);
  }
};

}  // namespace sluice::detail
