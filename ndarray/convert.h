#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include <sluice/ndarray/half.h>

namespace sluice::detail {

template <class T>
inline constexpr bool is_small_float = std::same_as<T, Half> || std::same_as<T, BFloat16>;

/// A double as the float next to it that is odd where inexact, so that a second rounding to fewer bits is right.
SLUICE_HD inline float round_to_odd(double value) noexcept {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  if (back == value || value != value)
    return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const bool too_large = (back > value) == (value > 0);
  if (too_large)
    --bits;
  return std::bit_cast<float>(bits | 1u);
}

/// The same of an integer.
template <std::integral From>
SLUICE_HD inline float round_to_odd(From value) noexcept {
  if constexpr (sizeof(From) > sizeof(std::int32_t)) {
    // A double holds 53 bits: what lies below becomes one bit, far under those that a float keeps.
    constexpr From low = 0xfff;
    bool is_long = value >= (From{1} << 53);
    if constexpr (std::is_signed_v<From>)
      is_long = is_long || value <= -(From{1} << 53);
    if (is_long)
      value = (value & ~low) | ((value & low) != 0 ? low + 1 : 0);
  }
  return round_to_odd(static_cast<double>(value));
}

/// One element from type to type, the same on CPU and GPU: floating to floating rounds to nearest even, floating to
/// integer cuts off the fraction (a value outside the target's range gives an unspecified one, as in C, but a negative
/// number wraps in an unsigned type, as an integer does), anything to bool is `!= 0`, integers wrap.
template <class To, class From>
SLUICE_HD inline To convert(From value) noexcept {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (is_small_float<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::same_as<To, bool>) {
    return value != From(0);
  } else if constexpr (is_small_float<To>) {
    if constexpr (std::same_as<From, double> || (std::integral<From> && sizeof(From) >= sizeof(std::int32_t))) {
      return To(round_to_odd(value));
    } else {
      return To(static_cast<float>(value));
    }
  } else if constexpr (std::floating_point<From> && std::integral<To> && sizeof(To) < 4) {
    return static_cast<To>(static_cast<std::int32_t>(value));
  } else if constexpr (std::floating_point<From> && std::is_unsigned_v<To>) {
    constexpr From beyond = static_cast<From>(0x1p63);  // int64
    return value >= beyond ? static_cast<To>(value) : static_cast<To>(static_cast<std::int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace sluice::detail
