// The functions that the formulas of the rows are written with, for Lanes; math.h has them for numbers and is what they
// agree with at NaN, infinities and zeros. Errors are a few units in the last place (Highway's math: at most 4).
// Compiled once for each instruction set, hence the guard that toggles.
#if SLUICE_HIGHWAY
#if defined(SLUICE_SIMD_FUNCTIONS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SIMD_FUNCTIONS_H
#undef SLUICE_SIMD_FUNCTIONS_H
#else
#define SLUICE_SIMD_FUNCTIONS_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <limits>

#include <sluice/operator/elementwise/rows.h>
#include <sluice/operator/simd/detail/exponential.h>
#include <sluice/operator/simd/detail/lanes.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

// What a row gives for a number: for lanes that a vector formula leaves out.
template <Unary row>
using Number = typename math::UnaryRow<row>::Value;
template <Binary row>
using Numbers = typename math::BinaryRow<row>::Value;

template <class D>
inline constexpr bool k_single = sizeof(hn::TFromD<D>) == 4;
template <class D>
inline constexpr hn::TFromD<D> k_infinite = std::numeric_limits<hn::TFromD<D>>::infinity();
template <class D>
inline constexpr hn::TFromD<D> k_not_a_number = std::numeric_limits<hn::TFromD<D>>::quiet_NaN();

template <class D>
HWY_INLINE Lanes<D> zero_like(Lanes<D>) {
  return 0;
}
template <class D>
HWY_INLINE Lanes<D> abs(Lanes<D> x) {
  return hn::Abs(x.v);
}
template <class D>
HWY_INLINE Truth<D> is_nan(Lanes<D> x) {
  return x != x;
}
template <class D>
HWY_INLINE Truth<D> is_infinite(Lanes<D> x) {
  return abs(x) == k_infinite<D>;
}
template <class D>
HWY_INLINE Lanes<D> wrapping_add(Lanes<D> a, Lanes<D> b) {
  return a + b;
}
template <class D>
HWY_INLINE Lanes<D> wrapping_subtract(Lanes<D> a, Lanes<D> b) {
  return a - b;
}
template <class D>
HWY_INLINE Lanes<D> wrapping_multiply(Lanes<D> a, Lanes<D> b) {
  return a * b;
}
template <class D>
HWY_INLINE Lanes<D> wrapping_negative(Lanes<D> x) {
  return -x;
}
template <class D>
HWY_INLINE Lanes<D> magnitude(Lanes<D> x) {
  return abs(x);
}
template <class D>
HWY_INLINE Lanes<D> sign(Lanes<D> x) {
  return select(x > 0, 1, select(x < 0, -1, select(x == 0, 0, x)));
}
template <class D>
HWY_INLINE Lanes<D> square(Lanes<D> x) {
  return x * x;
}
template <class D>
HWY_INLINE Lanes<D> over_square(Lanes<D> x, Lanes<D> root) {
  return x / root / root;
}
template <class D>
HWY_INLINE Lanes<D> clamp(Lanes<D> x, Lanes<D> low, Lanes<D> high) {
  return select(x < low, low, select(high < x, high, x));
}
template <class D>
HWY_INLINE Lanes<D> round_down(Lanes<D> x) {
  return hn::Floor(x.v);
}
template <class D>
HWY_INLINE Lanes<D> round_up(Lanes<D> x) {
  return hn::Ceil(x.v);
}
template <class D>
HWY_INLINE Lanes<D> round_nearest(Lanes<D> x) {
  return hn::Round(x.v);
}
template <class D>
HWY_INLINE Lanes<D> whole_quotient(Lanes<D> a, Lanes<D> b, Lanes<D> y) {
  return select(is_infinite(b), select(y == b, -1, y - y), round_nearest((a - y) / b));
}
template <class D>
HWY_INLINE Lanes<D> round_to_zero(Lanes<D> x) {
  return hn::Trunc(x.v);
}
template <class D>
HWY_INLINE Lanes<D> maximum(Lanes<D> a, Lanes<D> b) {
  return select(a > b || is_nan(a), a, b);
}
template <class D>
HWY_INLINE Lanes<D> minimum(Lanes<D> a, Lanes<D> b) {
  return select(a < b || is_nan(a), a, b);
}
template <class D>
HWY_INLINE Lanes<D> sqrt(Lanes<D> x) {
  return hn::Sqrt(x.v);
}

// Beyond these e^x is infinite in any case, and exponents overflow.
template <class D>
HWY_INLINE Lanes<D> exp_argument(Lanes<D> x) {
  const Lanes<D> top = k_single<D> ? 104 : 1000;
  return select(x > top, top, x);
}
template <class D>
HWY_INLINE Lanes<D> exp(Lanes<D> x) {
  x = exp_argument(x);
  if constexpr (k_single<D>)
    return Exponential<D>(select(x < -104, -104, x)).any();
  else
    return select(is_nan(x), x, Lanes<D>(hn::Exp(D{}, x.v)));
}
template <class D>
HWY_INLINE Lanes<D> expm1(Lanes<D> x) {
  const Lanes<D> y = hn::Expm1(D{}, exp_argument(x).v);
  return select(is_nan(x) || x == 0, x, select(x > (k_single<D> ? 89 : 710), k_infinite<D>, y));
}

// A logarithm `y` of x > 0, finite, made right for the other x.
template <class D>
HWY_INLINE Lanes<D> at_the_edges(Lanes<D> x, Lanes<D> y) {
  y = select(x < k_infinite<D>, y, x);
  return select(x > 0, y, select(x == 0, -k_infinite<D>, select(x < 0, k_not_a_number<D>, x)));
}
template <class D>
HWY_INLINE Lanes<D> log(Lanes<D> x) {
  return at_the_edges(x, Lanes<D>(hn::Log(D{}, x.v)));
}

// Singles as doubles, half of them at a time.
template <class D>
using Doubles = Lanes<hn::Rebind<double, hn::Half<D>>>;
template <class D>
HWY_INLINE Doubles<D> lower_doubles(Lanes<D> x) {
  return hn::PromoteTo(hn::Rebind<double, hn::Half<D>>{}, hn::LowerHalf(hn::Half<D>{}, x.v));
}
template <class D>
HWY_INLINE Doubles<D> upper_doubles(Lanes<D> x) {
  return hn::PromoteTo(hn::Rebind<double, hn::Half<D>>{}, hn::UpperHalf(hn::Half<D>{}, x.v));
}
template <class D>
HWY_INLINE Lanes<D> singles(Doubles<D> lower, Doubles<D> upper) {
  const hn::Half<D> half;
  return hn::Combine(D{}, hn::DemoteTo(half, upper.v), hn::DemoteTo(half, lower.v));
}

// F in doubles: for functions whose single result shall be the nearest number, or that lose too much on the way.
template <class F, class D, class... More>
HWY_INLINE Lanes<D> in_doubles(Lanes<D> x, More... more) {
  return singles<D>(F::of(lower_doubles(x), lower_doubles(more)...), F::of(upper_doubles(x), upper_doubles(more)...));
}

struct Log2 {
  template <class W>
  static HWY_INLINE W of(W x) {
    return log(x) * 1.442695040888963407;
  }
};
struct Log10 {
  template <class W>
  static HWY_INLINE W of(W x) {
    return log(x) * 0.434294481903251828;
  }
};
struct CubeRoot {
  template <class W>
  static HWY_INLINE W of(W x) {
    return with_sign_of(exp(log(abs(x)) * (1.0 / 3)), x);
  }
};
template <class D>
HWY_INLINE Lanes<D> log2(Lanes<D> x) {
  if constexpr (k_single<D>) {
    return in_doubles<Log2>(x);
  } else {
    return each_lane<Number<Unary::log2>>(x);
  }
}
template <class D>
HWY_INLINE Lanes<D> log10(Lanes<D> x) {
  if constexpr (k_single<D>) {
    return in_doubles<Log10>(x);
  } else {
    return each_lane<Number<Unary::log10>>(x);
  }
}
template <class D>
HWY_INLINE Lanes<D> cbrt(Lanes<D> x) {
  if constexpr (k_single<D>) {
    return in_doubles<CubeRoot>(x);
  } else {
    return each_lane<Number<Unary::cbrt>>(x);
  }
}
template <class D>
HWY_INLINE Lanes<D> log1p(Lanes<D> x) {
  const Lanes<D> y = select(x < k_infinite<D>, Lanes<D>(hn::Log1p(D{}, x.v)), x);
  return select(x > -1, y, select(x == -1, -k_infinite<D>, select(x < -1, k_not_a_number<D>, x)));
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
#endif
