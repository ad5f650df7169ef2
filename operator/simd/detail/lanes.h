// A vector of numbers that the formulas of unary.def and binary.def take for a number: operators, comparisons that give
// masks, select. Compiled once for each instruction set, hence the guard that toggles.
#if SLUICE_HIGHWAY
#if defined(SLUICE_SIMD_LANES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SIMD_LANES_H
#undef SLUICE_SIMD_LANES_H
#else
#define SLUICE_SIMD_LANES_H
#endif

#include <cstddef>
#include <cstdint>
#include <hwy/highway.h>
#include <type_traits>

#include <sluice/ndarray/detail/simd_build.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// True or false in each lane.
template <class D>
struct Truth {
  hn::Mask<D> is;

  friend HWY_INLINE Truth operator!(Truth a) { return {hn::Not(a.is)}; }
  friend HWY_INLINE Truth operator&&(Truth a, Truth b) { return {hn::And(a.is, b.is)}; }
  friend HWY_INLINE Truth operator||(Truth a, Truth b) { return {hn::Or(a.is, b.is)}; }
};

template <class D>
struct Lanes {
  using T = hn::TFromD<D>;
  hn::Vec<D> v;

  Lanes() = default;
  HWY_INLINE Lanes(hn::Vec<D> vector) : v(vector) {}  // NOLINT: by design
  template <class U>
  requires std::is_arithmetic_v<U> HWY_INLINE Lanes(U number)
      : v(hn::Set(D{}, static_cast<T>(number))) {}  // NOLINT: by design

  friend HWY_INLINE Lanes operator+(Lanes a, Lanes b) { return hn::Add(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a, Lanes b) { return hn::Sub(a.v, b.v); }
  friend HWY_INLINE Lanes operator*(Lanes a, Lanes b) { return hn::Mul(a.v, b.v); }
  friend HWY_INLINE Lanes operator/(Lanes a, Lanes b) { return hn::Div(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a) { return hn::Neg(a.v); }

  friend HWY_INLINE Truth<D> operator==(Lanes a, Lanes b) { return {hn::Eq(a.v, b.v)}; }
  // Of two NaNs too, which hn::Ne takes for equal.
  friend HWY_INLINE Truth<D> operator!=(Lanes a, Lanes b) { return {hn::Not(hn::Eq(a.v, b.v))}; }
  friend HWY_INLINE Truth<D> operator<(Lanes a, Lanes b) { return {hn::Lt(a.v, b.v)}; }
  friend HWY_INLINE Truth<D> operator<=(Lanes a, Lanes b) { return {hn::Le(a.v, b.v)}; }
  friend HWY_INLINE Truth<D> operator>(Lanes a, Lanes b) { return {hn::Gt(a.v, b.v)}; }
  friend HWY_INLINE Truth<D> operator>=(Lanes a, Lanes b) { return {hn::Ge(a.v, b.v)}; }

  friend HWY_INLINE Lanes select(Truth<D> condition, Lanes a, Lanes b) {
    return hn::IfThenElse(condition.is, a.v, b.v);
  }
  /// a * b + c with one rounding.
  friend HWY_INLINE Lanes fused(Lanes a, Lanes b, Lanes c) { return hn::MulAdd(a.v, b.v, c.v); }
  friend HWY_INLINE Lanes with_sign_of(Lanes magnitude, Lanes sign) { return hn::CopySign(magnitude.v, sign.v); }
};

template <class D>
HWY_INLINE bool any(Truth<D> truth) {
  return !hn::AllFalse(D{}, truth.is);
}
template <class D>
HWY_INLINE bool all(Truth<D> truth) {
  return hn::AllTrue(D{}, truth.is);
}

/// A polynomial, its coefficients from the highest power down.
template <class D, class First, class... C>
HWY_INLINE Lanes<D> polynomial(Lanes<D> x, First first, C... rest) {
  Lanes<D> sum = first;
  ((sum = fused(sum, x, rest)), ...);
  return sum;
}

// F of each of n numbers, written over the first operand. No vector goes through this call: how one is passed is not
// the same in all functions of a file that is compiled for several instruction sets.
template <class F, class T, class... More>
HWY_NOINLINE void each_number(std::size_t n, T* x, const More*... more) {
  for (std::size_t i = 0; i < n; ++i)
    x[i] = F::of(x[i], more[i]...);
}

template <class D>
struct alignas(HWY_MAX_BYTES) Spilled {
  hn::TFromD<D> at[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];

  explicit HWY_INLINE Spilled(Lanes<D> x) { hn::Store(x.v, D{}, at); }
};

/// F, a formula for numbers, in each lane.
template <class F, class D, class... More>
HWY_INLINE Lanes<D> each_lane(Lanes<D> x, More... more) {
  Spilled<D> numbers(x);
  each_number<F>(hn::Lanes(D{}), numbers.at, static_cast<const hn::TFromD<D>*>(Spilled<D>(more).at)...);
  return hn::Load(D{}, numbers.at);
}

/// `y` where `rare` is false, else F of the operands: for what is not worth a vector formula. Lanes do not touch each
/// other, so an element's result does not depend on its neighbours.
template <class F, class D, class... In>
HWY_INLINE Lanes<D> except(Truth<D> rare, Lanes<D> y, In... in) {
  if (HWY_UNLIKELY(any(rare)))
    y = select(rare, each_lane<F>(in...), y);
  return y;
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
#endif
