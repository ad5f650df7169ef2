// The functions of functions.h that are built from others: trigonometry, activations, the error function, powers.
// Compiled once for each instruction set, hence the guard that toggles.
#if SLUICE_HIGHWAY
#if defined(SLUICE_SIMD_SPECIAL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SIMD_SPECIAL_H
#undef SLUICE_SIMD_SPECIAL_H
#else
#define SLUICE_SIMD_SPECIAL_H
#endif

#include <sluice/operator/simd/detail/functions.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

// Not below `limit` in magnitude, or NaN: the C library's business.
template <class D, class L>
HWY_INLINE Truth<D> reaches(Lanes<D> x, L limit) {
  return !(abs(x) < limit);
}

inline constexpr int k_most_radians = 39000;  // where Highway's reduction ends

// Highway's keeps no sign of a zero.
template <class D>
HWY_INLINE Lanes<D> sin_in_range(Lanes<D> x) {
  return select(x == 0, x, Lanes<D>(hn::Sin(D{}, x.v)));
}
template <class D>
HWY_INLINE Lanes<D> sin(Lanes<D> x) {
  return except<Number<Unary::sin>>(reaches(x, k_most_radians), sin_in_range(x), x);
}
template <class D>
HWY_INLINE Lanes<D> cos(Lanes<D> x) {
  return except<Number<Unary::cos>>(reaches(x, k_most_radians), Lanes<D>(hn::Cos(D{}, x.v)), x);
}
template <class D>
HWY_INLINE Lanes<D> tan(Lanes<D> x) {
  const Lanes<D> y = sin_in_range(x) / Lanes<D>(hn::Cos(D{}, x.v));
  return except<Number<Unary::tan>>(reaches(x, k_most_radians), y, x);
}
template <class D>
HWY_INLINE Lanes<D> asin(Lanes<D> x) {
  return hn::Asin(D{}, x.v);
}
template <class D>
HWY_INLINE Lanes<D> acos(Lanes<D> x) {
  return hn::Acos(D{}, x.v);
}
template <class D>
HWY_INLINE Lanes<D> atan(Lanes<D> x) {
  return hn::Atan(D{}, x.v);
}
// Highway's halves what it works on, so that the least numbers would be flushed.
template <class D>
HWY_INLINE Lanes<D> sinh(Lanes<D> x) {
  const Lanes<D> y = select(abs(x) < (k_single<D> ? 0x1p-13 : 0x1p-27), x, Lanes<D>(hn::Sinh(D{}, x.v)));
  return except<Number<Unary::sinh>>(reaches(x, k_single<D> ? 88 : 709), y, x);
}
template <class D>
HWY_INLINE Lanes<D> cosh(Lanes<D> x) {
  const Lanes<D> e = exp(abs(x));
  return except<Number<Unary::cosh>>(reaches(x, k_single<D> ? 88 : 709), (e + 1 / e) * 0.5, x);
}
template <class D>
HWY_INLINE Lanes<D> tanh(Lanes<D> x) {
  return select(is_nan(x), x, Lanes<D>(hn::Tanh(D{}, x.v)));
}

template <class D>
HWY_INLINE Lanes<D> sigmoid(Lanes<D> x) {
  const Lanes<D> e = exp(-abs(x));
  return select(x < 0, e, 1) / (1 + e);
}
template <class D>
HWY_INLINE Lanes<D> softplus(Lanes<D> x) {
  return select(x < 0, 0, x) + log1p(exp(-abs(x)));
}

// The error function of single floats: x P(x^2) below 1, from erfc above. Coefficients by Chebyshev interpolation in 40
// digits; their error is below 1e-9.
template <class D>
HWY_INLINE Lanes<D> erf_near_zero(Lanes<D> x) {
  return x * polynomial(
                 x * x,
                 -9.667044650996104e-06,
                 0.00011265958892181516,
                 -0.0008484080317430198,
                 0.005221031606197357,
                 -0.026865430176258087,
                 0.11283782124519348,
                 -0.37612637877464294,
                 1.128379225730896);
}
// Of a >= 0.45: e^(-a^2) Q(t) / (1 + 2 a) with t = (a - 3) / (a + 3); the square keeps its lower half.
template <class D>
HWY_INLINE Lanes<D> erfc_of_positive(Lanes<D> a) {
  a = select(a > 11, 11, a);
  const Lanes<D> t = (a - 3) / (a + 3);
  const Lanes<D> q = polynomial(
                         t,
                         -0.00020009522268082947,
                         -0.0007015054579824209,
                         0.001965800765901804,
                         0.0025126629043370485,
                         -0.023792339488863945,
                         0.06830926239490509,
                         -0.11927111446857452,
                         0.12964515388011932,
                         -0.04756239801645279,
                         -0.1356211006641388,
                         1.2530080080032349) /
                     fused(a, 2, 1);
  const Lanes<D> squared = a * a, rest = fused(a, a, -squared);
  return exp(-squared) * fused(-rest, q, q);
}
template <class D>
HWY_INLINE Lanes<D> erf(Lanes<D> x) {
  if constexpr (k_single<D>) {
    const Lanes<D> a = abs(x);
    return select(a < 1, erf_near_zero(x), with_sign_of(1 - erfc_of_positive(a), x));
  } else {
    return each_lane<Number<Unary::erf>>(x);
  }
}
template <class D>
HWY_INLINE Lanes<D> erfc(Lanes<D> x) {
  if constexpr (k_single<D>) {
    const Lanes<D> a = abs(x), far = erfc_of_positive(a);
    return select(a < 0.5, 1 - erf_near_zero(x), select(x < 0, 2 - far, far));
  } else {
    return each_lane<Number<Unary::erfc>>(x);
  }
}

struct Power {
  template <class W>
  static HWY_INLINE W of(W a, W b) {
    const W half = b * 0.5;
    const auto is_whole = round_nearest(b) == b, is_even = round_nearest(half) == half;
    W y = select(b == 0, 1, exp(b * log(abs(a))));
    y = select(is_whole && !is_even, with_sign_of(y, a), y);
    return select(a < 0 && !is_infinite(a) && !is_whole, std::numeric_limits<double>::quiet_NaN(), y);
  }
};
template <class D>
HWY_INLINE Lanes<D> power(Lanes<D> a, Lanes<D> b) {
  const auto is_square = b == 2;
  if (all(is_square))
    return a * a;
  if constexpr (k_single<D>) {
    const Lanes<D> y =
        except<Numbers<Binary::power>>(is_nan(a) || is_nan(b) || is_infinite(b), in_doubles<Power>(a, b), a, b);
    return select(is_square, a * a, y);
  } else {
    return each_lane<Numbers<Binary::power>>(a, b);
  }
}

struct Remainder {
  // The quotient may have been rounded up to a whole number; the rest is exact below 2^28.
  template <class W>
  static HWY_INLINE W of(W a, W b) {
    W rest = fused(-round_to_zero(a / b), b, a);
    rest = select(rest * a < 0, rest + with_sign_of(b, a), rest);
    rest = select((rest < 0 && b > 0) || (rest > 0 && b < 0), rest + b, rest);
    return select(rest == 0, with_sign_of(0, b), rest);
  }
};
template <class D>
HWY_INLINE Lanes<D> floor_mod(Lanes<D> a, Lanes<D> b) {
  if constexpr (k_single<D>) {
    const auto rare = reaches(a / b, 0x1p28f) || is_infinite(b);
    return except<Numbers<Binary::mod>>(rare, in_doubles<Remainder>(a, b), a, b);
  } else {
    return each_lane<Numbers<Binary::mod>>(a, b);
  }
}

struct Hypotenuse {
  template <class W>
  static HWY_INLINE W of(W a, W b) {
    return sqrt(fused(a, a, b * b));
  }
};
template <class D>
HWY_INLINE Lanes<D> hypot(Lanes<D> a, Lanes<D> b) {
  if constexpr (k_single<D>) {
    return select(is_infinite(a) || is_infinite(b), k_infinite<D>, in_doubles<Hypotenuse>(a, b));
  } else {
    return each_lane<Numbers<Binary::hypot>>(a, b);
  }
}

template <class D>
HWY_INLINE Lanes<D> atan2(Lanes<D> a, Lanes<D> b) {
  const Lanes<D> up = abs(a), right = abs(b), angle = atan(up / right);
  const Lanes<D> y = with_sign_of(select(b < 0, 3.14159265358979323846 - angle, angle), a);
  const auto rare = up == 0 || right == 0 || reaches(up, k_infinite<D>) || reaches(right, k_infinite<D>);
  return except<Numbers<Binary::arctan2>>(rare, y, a, b);
}
template <class D>
HWY_INLINE Lanes<D> difference(Lanes<D> a, Lanes<D> b) {
  return select(a == b, 0, a - b);
}
template <class D>
HWY_INLINE Lanes<D> logaddexp(Lanes<D> a, Lanes<D> b) {
  const Lanes<D> y = maximum(a, b) + log1p(exp(-abs(a - b)));
  return select(a == b, a + 0.693147180559945309417, y);
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
#endif
