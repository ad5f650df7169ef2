#pragma once

// The functions that the formulas of unary.def and binary.def are written with, for numbers. The same formulas are
// instantiated with arrays, where argument-dependent look-up finds the array functions of the same names.
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <sluice/operator/elementwise/sigmoid.h>
#include <sluice/operator/floating.h>

namespace sluice::math {

using std::abs;
using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atanh;
using std::ceil;
using std::copysign;
using std::cos;
using std::cosh;
using std::erf;
using std::erfc;
using std::exp;
using std::exp2;
using std::expm1;
using std::floor;
using std::hypot;
using std::log1p;
using std::rint;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;
using std::trunc;

using detail::Compute;

/// x as the thread's arithmetic reads it. The C library looks at bits, and so past a mode in which denormals are zero.
template <class T>
SLUICE_HD inline T as_read(T x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, float>)
    return x + std::copysign(T(0), x);
#endif
  return x;
}

// Functions for which a denormal and zero are worlds apart.
template <std::floating_point T>
SLUICE_HD inline T log(T x) {
  return std::log(as_read(x));
}
template <std::floating_point T>
SLUICE_HD inline T log2(T x) {
  return std::log2(as_read(x));
}
template <std::floating_point T>
SLUICE_HD inline T log10(T x) {
  return std::log10(as_read(x));
}
template <std::floating_point T>
SLUICE_HD inline T cbrt(T x) {
  return std::cbrt(as_read(x));
}
template <std::floating_point T>
SLUICE_HD inline T pow(T a, T b) {
  return std::pow(as_read(a), as_read(b));
}
template <std::floating_point T>
SLUICE_HD inline T atan2(T a, T b) {
  return std::atan2(as_read(a), as_read(b));
}
template <std::floating_point T>
SLUICE_HD inline T fmod(T a, T b) {
  return std::fmod(as_read(a), as_read(b));
}

/// A constant in a formula: `K(0.5)` is of the formula's own type, or a Scalar beside arrays.
template <class T>
struct ConstantOf {
  using type = T;
};

template <class A, class B>
SLUICE_HD inline auto select(bool condition, A a, B b) {
  using Common = std::common_type_t<A, B>;
  return condition ? static_cast<Common>(a) : static_cast<Common>(b);
}

template <class T>
SLUICE_HD inline T zero_like(T) {
  return T(0);
}

/// x < 0; never for unsigned types.
template <class T>
SLUICE_HD inline bool is_negative(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return false;
  } else {
    return x < 0;
  }
}

/// With a negative sign, of zeros and NaNs too.
template <class T>
SLUICE_HD inline bool is_signed(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return copysign(T(1), x) < 0;
  } else {
    return is_negative(x);
  }
}

// Integers wrap around, as in NumPy; in C++ only unsigned ones may.
template <class T>
SLUICE_HD inline T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <class T>
SLUICE_HD inline T wrapping_subtract(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  } else {
    return a - b;
  }
}

template <class T>
SLUICE_HD inline T wrapping_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return a * b;
  }
}

template <class T>
SLUICE_HD inline T wrapping_negative(T x) {
  if constexpr (std::is_integral_v<T>) {
    return wrapping_subtract(T(0), x);
  } else {
    return -x;
  }
}

template <class T>
SLUICE_HD inline T magnitude(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return abs(x);
  } else if constexpr (std::is_unsigned_v<T>) {
    return x;
  } else {
    return x < 0 ? wrapping_negative(x) : x;
  }
}

/// -1, 0 or 1, the 0 without a sign; NaN stays.
template <class T>
SLUICE_HD inline T sign(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return x > 0 ? T(1) : T(0);
  } else {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x;
  }
}

template <class T>
SLUICE_HD inline T square(T x) {
  return wrapping_multiply(x, x);
}

template <class T>
SLUICE_HD inline T round_down(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return floor(x);
  } else {
    return x;
  }
}
template <class T>
SLUICE_HD inline T round_up(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return ceil(x);
  } else {
    return x;
  }
}
/// Halves go to the even neighbour, as in NumPy.
template <class T>
SLUICE_HD inline T round_nearest(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return rint(x);
  } else {
    return x;
  }
}
template <class T>
SLUICE_HD inline T round_to_zero(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return trunc(x);
  } else {
    return x;
  }
}

template <class T>
SLUICE_HD inline bool is_nan(T x) {
  return x != x;
}
template <class T>
SLUICE_HD inline bool is_infinite(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x == std::numeric_limits<T>::infinity() || x == -std::numeric_limits<T>::infinity();
  } else {
    return false;
  }
}

/// log(1 + e^x), without overflow.
template <class T>
SLUICE_HD inline T softplus(T x) {
  return (x < 0 ? T(0) : x) + log1p(exp(-abs(x)));
}

/// NaN wins, as in NumPy.
template <class T>
SLUICE_HD inline T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
SLUICE_HD inline T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}

/// Integers: by squaring, wrapping around; a negative exponent gives 0 unless the base is 1 or -1.
template <class T>
SLUICE_HD inline T power(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return b == T(2) ? a * a : pow(a, b);
  } else {
    if (is_negative(b))
      return a == 1 ? T(1) : a == T(-1) ? ((b & 1) != 0 ? T(-1) : T(1)) : T(0);
    T result = 1;
    for (T base = a, left = b; left > 0; left = static_cast<T>(left >> 1), base = wrapping_multiply(base, base)) {
      if ((left & 1) != 0)
        result = wrapping_multiply(result, base);
    }
    return result;
  }
}

/// Remainder with the sign of the divisor, zeros too (numpy.mod). An integer modulo 0 is 0; a floating one is NaN.
template <class T>
SLUICE_HD inline T floor_mod(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T rest = fmod(a, b);
    if (rest == T(0))
      return std::copysign(T(0), b);
    return (rest < T(0)) != (b < T(0)) ? rest + b : rest;
  } else {
    if (b == 0 || b == static_cast<T>(-1))
      return b == 0 || std::is_signed_v<T> ? T(0) : static_cast<T>(a % b);
    const T rest = static_cast<T>(a % b);
    return rest != 0 && is_negative(rest) != is_negative(b) ? static_cast<T>(rest + b) : rest;
  }
}

/// The whole number below a / b. Integers: by 0 it is 0, and what does not fit wraps around.
template <class T>
SLUICE_HD inline T floor_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b == 0)
      return a / b;
    if constexpr (std::is_same_v<T, float>) {  // remainders of the least numbers are flushed
      const float quotient = a / b;
      if (b - b == 0 && -0x1p28f < quotient && quotient < 0x1p28f) {
        const auto below = static_cast<float>(floor(static_cast<double>(a) / static_cast<double>(b)));
        return below == 0 ? copysign(0.0f, quotient) : below;
      }
    }
    const T rest = fmod(a, b), whole = rint((a - rest) / b);  // rounded: the quotient may miss it
    const T below = rest != 0 && (rest < 0) != (b < 0) ? whole - 1 : whole;
    return below == 0 ? copysign(T(0), a / b) : below;
  } else {
    if (b == 0)
      return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return wrapping_negative(a);
    const T whole = static_cast<T>(a / b);
    return a % b != 0 && is_negative(a) != is_negative(b) ? static_cast<T>(whole - 1) : whole;
  }
}

/// How often b goes into a, from their remainder y, which of floor_mod is b itself where an infinite b has the other
/// sign.
template <std::floating_point T>
SLUICE_HD inline T whole_quotient(T a, T b, T y) {
  return is_infinite(b) ? (y == b ? T(-1) : y - y) : round_nearest((a - y) / b);
}

/// x / root^2, where the square need not fit.
template <std::floating_point T>
SLUICE_HD inline T over_square(T x, T root) {
  return x / root / root;
}

/// a - b, and 0 of equal infinities.
template <std::floating_point T>
SLUICE_HD inline T difference(T a, T b) {
  return a == b ? T(0) : a - b;
}

/// log(e^a + e^b), without overflow.
template <class T>
SLUICE_HD inline T logaddexp(T a, T b) {
  if (a == b)
    return a + static_cast<T>(0.693147180559945309417232121458);
  return maximum(a, b) + log1p(exp(-abs(a - b)));
}

/// log2(2^a + 2^b), without overflow.
template <class T>
SLUICE_HD inline T logaddexp2(T a, T b) {
  if (a == b)
    return a + 1;
  return maximum(a, b) + log1p(exp2(-abs(a - b))) * static_cast<T>(1.442695040888963407);
}

/// x kept between low and high; NaN stays.
template <class T>
SLUICE_HD inline T clamp(T x, T low, T high) {
  return x < low ? low : high < x ? high : x;
}

/// a * 2^b by three factors: neither they nor what lies between a and the result leave the type first.
template <std::floating_point T>
SLUICE_HD inline T ldexp(T a, T b) {
  const T places = clamp(b, sizeof(T) == 4 ? T(-370) : T(-3058), sizeof(T) == 4 ? T(254) : T(2046));
  const T third = trunc(places / 3), factor = exp2(third);
  return a * factor * factor * exp2(places - 2 * third);
}

}  // namespace sluice::math
