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
HWY_INLINE Lanes<D> sigmoid_slope(Lanes<D> x) {
  const Lanes<D> e = exp(-abs(x));
  return e / ((1 + e) * (1 + e));
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
// Of a >= 0: e^(-a^2) s Q(t) with s = 1 / (a + 3) and t = (a - 3) / (a + 3); the square keeps its lower half.
template <class D>
HWY_INLINE Lanes<D> erfc_of_positive(Lanes<D> a) {
  a = select(a > 10.1f, 10.1f, a);
  const Lanes<D> s = 1 / (a + 3);
  const Lanes<D> q = s * polynomial(
                             (a - 3) * s,  // 1 - 6 s would have the rounding of s six times
                             -0.00033402980284484835,
                             -0.00049967594301176257,
                             0.0030775691550454083,
                             -0.0012169178067767,
                             -0.026836442365188027,
                             0.11952727639880407,
                             -0.3104666345502362,
                             0.59022841778975448,
                             -0.88339446054031268,
                             1.0740069063184601);
  const Lanes<D> squared = a * a, rest = fused(a, a, -squared);
  return Exponential<D>(-squared).any() * fused(-rest, q, q);
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
    const Lanes<D> y = erfc_of_positive(abs(x));
    return select(x < 0, 2 - y, y);
  } else {
    return each_lane<Number<Unary::erfc>>(x);
  }
}

// Of singles, worked out in doubles: |a| = 2^power * number is taken apart before, the result put together behind.
struct Power {
  // Gives y of y * 2^whole. The polynomials, by Chebyshev interpolation, are off by 5e-12 and 6e-9 at most.
  template <class W>
  static HWY_INLINE W of(W number, W power, W b, W& whole) {
    const W ratio = (number - 1) / (number + 1);
    const W series = polynomial(
        ratio * ratio, 0.236178113589759186, 0.285349762545869061, 0.400003858508739204, 0.666666652417123906, 2);
    W x = b * fused(power, 0.693147180559945309, ratio * series);
    x = clamp(x, W(-104), W(104));
    whole = round_nearest(x * 1.44269504088896341);
    return polynomial(
        fused(whole, -0.693147180559945309, x),
        0.00139336499963092504,
        0.00836915566769739678,
        0.0416664649252859054,
        0.166665051957581113,
        0.50000000134658092,
        1,
        1);
  }
};
// |a|^b; a is 0, a normal number or infinite, b is finite.
template <class D>
HWY_INLINE Lanes<D> power_of_magnitude(Lanes<D> a, Lanes<D> b) {
  const hn::RebindToSigned<D> whole;
  // Numbers from the root of 1/2 to that of 2.
  const auto bits = hn::BitCast(whole, hn::Abs(a.v)), root = hn::Set(whole, 0x3F3504F3);
  const auto above = hn::ShiftRight<23>(hn::Sub(bits, root));
  const Lanes<D> number = hn::BitCast(D{}, hn::Sub(bits, hn::ShiftLeft<23>(above)));
  Lanes<D> exponent = hn::ConvertTo(D{}, above);
  exponent = select(a == 0, -k_infinite<D>, select(is_infinite(a), k_infinite<D>, exponent));
  Doubles<D> lower_n, upper_n;
  const auto lower = Power::of(lower_doubles(number), lower_doubles(exponent), lower_doubles(b), lower_n);
  const auto upper = Power::of(upper_doubles(number), upper_doubles(exponent), upper_doubles(b), upper_n);
  return Exponential<D>(singles<D>(lower, upper), singles<D>(lower_n, upper_n)).any();
}
template <class D>
HWY_INLINE Lanes<D> power(Lanes<D> a, Lanes<D> b) {
  const auto is_square = b == 2;
  if (all(is_square))
    return a * a;
  if constexpr (k_single<D>) {
    const Lanes<D> half = b * 0.5;
    const auto is_whole = round_nearest(b) == b, is_even = round_nearest(half) == half;
    Lanes<D> y = select(b == 0, 1, power_of_magnitude(a, b));
    y = select(is_whole && !is_even, with_sign_of(y, a), y);
    y = select(a < 0 && !is_infinite(a) && !is_whole, k_not_a_number<D>, y);
    const auto denormal = abs(a) < std::numeric_limits<float>::min() && a != 0;
    y = except<Numbers<Binary::power>>(denormal || is_nan(a) || is_nan(b) || is_infinite(b), y, a, b);
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
