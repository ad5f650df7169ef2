// e^x of singles. Compiled once for each instruction set, hence the guard that toggles.
#if SLUICE_HIGHWAY
#if defined(SLUICE_SIMD_EXPONENTIAL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SIMD_EXPONENTIAL_H
#undef SLUICE_SIMD_EXPONENTIAL_H
#else
#define SLUICE_SIMD_EXPONENTIAL_H
#endif

#include <sluice/operator/simd/detail/lanes.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

/// e^x = y * 2^n; `shifted` has n in its low bits.
template <class D>
struct Exponential {
  Lanes<D> y, n, shifted;

  // Cody and Waite's reduction by ln 2 in two parts; the polynomial, fitted by exchange, is off by 3e-9 at most from
  // -ln 2 / 2 to ln 2 / 2. NaN stays.
  explicit HWY_INLINE Exponential(Lanes<D> x)
      : shifted(fused(x, 1.44269504f, 12582912.0f)) {  // 1.5 * 2^23: the sum's low bits are the integer
    n = shifted - 12582912.0f;
    const Lanes<D> r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, x));
    y = polynomial(r, 1.3814540580e-3f, 8.3687454462e-3f, 4.1668388993e-2f, 1.6666521132e-1f, 4.9999994040e-1f, 1, 1);
  }

  HWY_INLINE Exponential(Lanes<D> number, Lanes<D> power) : y(number), n(power), shifted(power + 12582912.0f) {}

  /// Of results that are normal, or NaN.
  HWY_INLINE Lanes<D> normal() const {
#if HWY_TARGET == HWY_AVX3
    return any();
#else
    return y * power_of_two(hn::BitCast(Whole{}, shifted.v));
#endif
  }
  /// Of x from -104 to 104, n from -150 to 150, or NaN.
  HWY_INLINE Lanes<D> any() const {
#if HWY_TARGET == HWY_AVX3
    return Lanes<D>(hn::Vec<D>{_mm512_scalef_ps(y.v.raw, n.v.raw)});
#else
    // 2^n may be no normal number, two factors are.
    const auto all = hn::Sub(hn::BitCast(Whole{}, shifted.v), hn::Set(Whole{}, 0x4B400000));
    const auto half = hn::ShiftRight<1>(all);
    return y * power_of_two(half) * power_of_two(hn::Sub(all, half));
#endif
  }

 private:
  using Whole = hn::RebindToSigned<D>;

  static HWY_INLINE Lanes<D> power_of_two(hn::Vec<Whole> n) {
    return hn::BitCast(D{}, hn::ShiftLeft<23>(hn::Add(n, hn::Set(Whole{}, 127))));
  }
};

/// e^x of x <= 0, to a unit in the last place; 0 where results would be denormal, NaN stays.
template <class D>
HWY_INLINE Lanes<D> exp_below(Lanes<D> x) {
  return select(x < -87.33f, 0, Exponential<D>(x).normal());
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
#endif
