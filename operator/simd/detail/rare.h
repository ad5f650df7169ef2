// The functions of the rows that came last: remainders, inverse hyperbolic functions, what is special. Compiled once
// for each instruction set, hence the guard that toggles.
#if SLUICE_HIGHWAY
#if defined(SLUICE_SIMD_RARE_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SIMD_RARE_H
#undef SLUICE_SIMD_RARE_H
#else
#define SLUICE_SIMD_RARE_H
#endif

#include <sluice/operator/simd/detail/special.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

template <class D>
HWY_INLINE Truth<D> is_negative(Lanes<D> x) {
  return x < 0;
}
template <class D>
HWY_INLINE Truth<D> is_signed(Lanes<D> x) {
  return with_sign_of(Lanes<D>(1), x) < 0;
}
template <class D>
HWY_INLINE Lanes<D> copysign(Lanes<D> a, Lanes<D> b) {
  return with_sign_of(a, b);
}

// Of singles: their quotients below 2^28 are too far from the next whole number to be rounded up to it as doubles, and
// the rest is exact.
struct TruncatedRest {
  template <class W>
  static HWY_INLINE W of(W a, W b) {
    const W rest = fused(-round_to_zero(a / b), b, a);
    return select(rest == 0, with_sign_of(0, a), rest);
  }
};
struct FloorQuotient {
  template <class W>
  static HWY_INLINE W of(W a, W b) {
    const W quotient = a / b, whole = round_down(quotient);
    return select(whole == 0, with_sign_of(0, quotient), whole);
  }
};
template <class D>
HWY_INLINE Lanes<D> fmod(Lanes<D> a, Lanes<D> b) {
  if constexpr (k_single<D>) {
    const auto rare = reaches(a / b, 0x1p28f) || is_infinite(b);
    return except<Numbers<Binary::fmod>>(rare, in_doubles<TruncatedRest>(a, b), a, b);
  } else {
    return each_lane<Numbers<Binary::fmod>>(a, b);
  }
}
template <class D>
HWY_INLINE Lanes<D> floor_divide(Lanes<D> a, Lanes<D> b) {
  if constexpr (k_single<D>) {
    const auto rare = reaches(a / b, 0x1p28f) || is_infinite(b);
    return except<Numbers<Binary::floor_divide>>(rare, in_doubles<FloorQuotient>(a, b), a, b);
  } else {
    return each_lane<Numbers<Binary::floor_divide>>(a, b);
  }
}

struct PowerOfTwo {
  template <class W>
  static HWY_INLINE W of(W x) {
    return exp(x * 0.693147180559945309);
  }
};
template <class D>
HWY_INLINE Lanes<D> exp2(Lanes<D> x) {
  if constexpr (k_single<D>) {
    return in_doubles<PowerOfTwo>(x);
  } else {
    return each_lane<Number<Unary::exp2>>(x);
  }
}
template <class D>
HWY_INLINE Lanes<D> logaddexp2(Lanes<D> a, Lanes<D> b) {
  const Lanes<D> y = maximum(a, b) + log1p(exp2(-abs(a - b))) * 1.442695040888963407;
  return select(a == b, a + 1, y);
}
template <class D>
HWY_INLINE Lanes<D> ldexp(Lanes<D> a, Lanes<D> b) {
  return each_lane<Numbers<Binary::ldexp>>(a, b);
}

// Highway's takes the logarithm of what is infinite.
template <class D>
HWY_INLINE Lanes<D> asinh(Lanes<D> x) {
  return select(abs(x) < k_infinite<D>, Lanes<D>(hn::Asinh(D{}, x.v)), x);
}
template <class D>
HWY_INLINE Lanes<D> acosh(Lanes<D> x) {
  return select(x < 1, k_not_a_number<D>, select(x < k_infinite<D>, Lanes<D>(hn::Acosh(D{}, x.v)), x));
}
template <class D>
HWY_INLINE Lanes<D> atanh(Lanes<D> x) {
  const Lanes<D> a = abs(x);
  return with_sign_of(log1p((a + a) / (1 - a)) * 0.5, x);
}

template <class D>
HWY_INLINE Lanes<D> sin_pi(Lanes<D> x) {
  const Lanes<D> whole = round_nearest(x), half = whole * 0.5, y = sin_in_range((x - whole) * math::k_pi);
  return select(round_nearest(half) == half, y, -y);
}
template <class D>
HWY_INLINE Lanes<D> cos_pi(Lanes<D> x) {
  return sin_in_range((0.5 - abs(x - round_nearest(x * 0.5) * 2)) * math::k_pi);
}
template <class D>
HWY_INLINE Lanes<D> logit(Lanes<D> x) {
  return select(abs(x - 0.5) < 0.25, atanh(x * 2 - 1) * 2, log(x / (1 - x)));
}
// As in elementwise/special.h.
template <class D>
HWY_INLINE Lanes<D> erfinv(Lanes<D> x) {
  if constexpr (k_single<D>) {
    const Lanes<D> w = -log((1 - x) * (1 + x));
    const Lanes<D> near = polynomial(
        w - 2.5f,
        2.260597774117097464e-8,
        3.42224708993456889e-7,
        -3.454779514269784322e-6,
        -4.380346714123750126e-6,
        0.0002183129798410102531,
        -0.001253758884835318065,
        -0.004177346517287056157,
        0.2466407662672499069,
        1.501409351110791925);
    const Lanes<D> far = polynomial(
        sqrt(w) - 3,
        -0.0001712123938673878691,
        0.00007677498838277570417,
        0.001313706533752146101,
        -0.003647757398461451952,
        0.005753949589111972855,
        -0.007630173254750358643,
        0.009436851449928092552,
        1.001674662958873609,
        2.832976967338588262);
    return select(abs(x) == 1, with_sign_of(k_infinite<D>, x), x * select(w < 5, near, far));
  } else {
    return each_lane<Number<Unary::erfinv>>(x);
  }
}

template <class D>
HWY_INLINE Lanes<D> gamma(Lanes<D> x) {
  return each_lane<Number<Unary::gamma>>(x);
}
// Of singles that are normal and above 0, in doubles: by Stirling's series, from 8 on, to which what is less is moved
// by
// 8. Near the zeros, where terms cancel, doubles have digits enough.
struct LogOfGamma {
  template <class W>
  static HWY_INLINE W of(W x) {
    const auto is_small = x < 8;
    const W product = x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5) * (x + 6) * (x + 7);
    const W z = select(is_small, x + 8, x), inverse = 1 / z;
    const W series =
        inverse *
        polynomial(inverse * inverse, -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12);
    const W y = (z - 0.5) * log(z) - z + 0.918938533204672742 + series;
    return select(x == 1 || x == 2, 0, y - log(select(is_small, product, 1)));
  }
};
struct Digamma {
  template <class W>
  static HWY_INLINE W of(W x) {
    W reciprocals = 1, product = x;  // the sum of 1 / (x + k) is their quotient
    for (int k = 1; k < 8; ++k) {
      const W next = x + k;
      reciprocals = fused(reciprocals, next, product);
      product = product * next;
    }
    const auto is_small = x < 8;
    const W z = select(is_small, x + 8, x), inverse = 1 / z, square = inverse * inverse;
    const W series =
        polynomial(square, 1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12);
    return log(z) - 0.5 * inverse - square * series - select(is_small, reciprocals / product, 0);
  }
};
template <class D>
HWY_INLINE Truth<D> is_no_plain_argument(Lanes<D> x) {
  return !(x >= std::numeric_limits<hn::TFromD<D>>::min() && x < k_infinite<D>);
}
template <class D>
HWY_INLINE Lanes<D> gammaln(Lanes<D> x) {
  if constexpr (k_single<D>) {
    return except<Number<Unary::gammaln>>(is_no_plain_argument(x), in_doubles<LogOfGamma>(x), x);
  } else {
    return each_lane<Number<Unary::gammaln>>(x);
  }
}
template <class D>
HWY_INLINE Lanes<D> digamma(Lanes<D> x) {
  if constexpr (k_single<D>) {
    return except<Number<Unary::digamma>>(is_no_plain_argument(x), in_doubles<Digamma>(x), x);
  } else {
    return each_lane<Number<Unary::digamma>>(x);
  }
}
template <class D>
HWY_INLINE Lanes<D> polygamma(Lanes<D> x, Lanes<D> n) {
  return each_lane<Number<Unary::polygamma>>(x, n);
}
template <class D>
HWY_INLINE Lanes<D> next_polygamma(Lanes<D> x, Lanes<D> n) {
  return polygamma(x, n + 1);
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
#endif
