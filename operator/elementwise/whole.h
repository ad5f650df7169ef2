#pragma once

// Functions of the formulas for whole numbers: bits, shifts, remainders, divisors.
#include <concepts>
#include <type_traits>

#include <sluice/operator/elementwise/math.h>

namespace sluice::math {

template <class T>
SLUICE_HD inline T complement(T x) {
  if constexpr (std::is_same_v<T, bool>) {
    return !x;
  } else {
    return static_cast<T>(~x);
  }
}
/// Every bit leaves by as many places as there are or more, and by a negative number of them (numpy.left_shift).
template <class T>
SLUICE_HD inline T shift_left(T x, T places) {
  using U = std::make_unsigned_t<T>;
  constexpr U width = 8 * sizeof(T);
  return static_cast<U>(places) < width ? static_cast<T>(static_cast<U>(x) << places) : T(0);
}
/// The sign fills what becomes free.
template <class T>
SLUICE_HD inline T shift_right(T x, T places) {
  using U = std::make_unsigned_t<T>;
  constexpr U width = 8 * sizeof(T);
  return static_cast<U>(places) < width ? static_cast<T>(x >> places) : is_negative(x) ? static_cast<T>(-1) : T(0);
}

template <std::integral T>
SLUICE_HD inline auto magnitude_bits(T x) {
  using U = std::make_unsigned_t<T>;
  return static_cast<U>(is_negative(x) ? U(0) - static_cast<U>(x) : static_cast<U>(x));
}
/// The magnitude of the least number of a type wraps around.
template <std::integral T>
SLUICE_HD inline T gcd(T a, T b) {
  auto larger = magnitude_bits(a), smaller = magnitude_bits(b);
  while (smaller != 0) {
    const auto rest = static_cast<decltype(smaller)>(larger % smaller);
    larger = smaller;
    smaller = rest;
  }
  return static_cast<T>(larger);
}
template <std::integral T>
SLUICE_HD inline T lcm(T a, T b) {
  const auto shared = magnitude_bits(gcd(a, b));
  return shared == 0 ? T(0) : static_cast<T>(magnitude_bits(a) / shared * magnitude_bits(b));
}

/// With the sign of a; 0 where b is.
template <std::integral T>
SLUICE_HD inline T fmod(T a, T b) {
  return b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1)) ? T(0) : static_cast<T>(a % b);
}

}  // namespace sluice::math
