#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <sluice/ndarray/half.h>
#include <sluice/operator/elementwise/math.h>

// What reductions add up in, and how: one arithmetic for CPU and GPU. A state of terms of type T has
//
//   Acc, Out       a partial result, of trivial type, and the result
//   identity()     the partial result of no terms
//   lift(x)        of one term, a T or a number that was converted from one; with add(acc, x), if there is one, terms
//                  are taken one by one instead
//   join(a, b)     of two, those of `a` first; associative up to rounding
//   finish(a)      the result
//
// One that is Placed has take(acc, terms, place, apart) in place of lift(): it is told some terms, of the first one
// which term of its result that is, and how far it is from one to the next; a thread's places grow, and join() need not
// be given parts in order.
namespace sluice::detail {

/// float for the half types and float, double for double, int64 for integers and bool.
template <class T>
using Accumulator = std::
    conditional_t<std::is_same_v<T, double>, double, std::conditional_t<std::is_integral_v<T>, std::int64_t, float>>;

/// The type itself of floating ones, int64 of the others.
template <class T>
using Whole = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;

template <class T>
SLUICE_HD inline Accumulator<T> to_accumulator(T value) noexcept {
  return static_cast<Accumulator<T>>(value);
}

template <class A>
SLUICE_HD inline bool is_nan(A value) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    return value != value;
  } else {
    return false;
  }
}

template <class A>
SLUICE_HD inline A magnitude_of(A value) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    return std::abs(value);
  } else {
    return value < 0 ? -value : value;
  }
}

/// The larger of two; a NaN once met stays, by one instruction where there is one.
template <class A>
SLUICE_HD inline A larger_or_nan(A a, A b) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<A, float>) {
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
    return a;
  }
#endif
  // A NaN in b fails the comparison and is taken, one in a stays. Without branches, so that loops become vectors.
  const bool keeps = (a >= b) | is_nan(a);
  return keeps ? a : b;
}
/// The smaller one, likewise.
template <class A>
SLUICE_HD inline A smaller_or_nan(A a, A b) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<A, float>) {
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
    return a;
  }
#endif
  const bool keeps = (a <= b) | is_nan(a);
  return keeps ? a : b;
}

template <class Op>
concept Placed = requires {
  requires Op::k_placed;
};

/// `acc` with one term more.
template <class Op, class T>
SLUICE_HD inline typename Op::Acc with_term(const Op& op, typename Op::Acc acc, T x) noexcept {
  if constexpr (requires { op.add(acc, x); }) {
    return op.add(acc, x);
  } else {
    return op.join(acc, op.lift(x));
  }
}

/// Sum, and mean when the divisor is the number of terms.
template <class T>
struct SumOf {
  using Acc = Accumulator<T>;
  using Out = Whole<T>;
  Acc divisor = 1;

  SLUICE_HD static Acc identity() noexcept { return Acc{0}; }
  template <class X>
  SLUICE_HD static Acc lift(X x) noexcept {
    return to_accumulator(x);
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return math::wrapping_add(a, b); }
  SLUICE_HD Out finish(Acc a) const noexcept {
    if constexpr (std::is_integral_v<T>) {
      return a;
    } else {
      return static_cast<Out>(a / divisor);
    }
  }
};

/// Integers add up in int64 and are rounded once. Of int64 sums need not fit: they add up in double.
template <class T>
struct WholeMeanOf {
  using Acc = std::conditional_t<sizeof(T) == 8, double, std::int64_t>;
  using Out = float;
  double divisor = 1;

  SLUICE_HD static Acc identity() noexcept { return Acc{0}; }
  template <class X>
  SLUICE_HD static Acc lift(X x) noexcept {
    return static_cast<Acc>(x);
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return a + b; }
  SLUICE_HD Out finish(Acc a) const noexcept { return static_cast<float>(static_cast<double>(a) / divisor); }
};

template <class T>
auto mean_of(double terms) noexcept {
  if constexpr (std::is_integral_v<T>) {
    return WholeMeanOf<T>{terms};
  } else {
    return SumOf<T>{static_cast<Accumulator<T>>(terms)};
  }
}

template <class T>
struct ProductOf {
  using Acc = Accumulator<T>;
  using Out = Whole<T>;

  SLUICE_HD static Acc identity() noexcept { return Acc{1}; }
  template <class X>
  SLUICE_HD static Acc lift(X x) noexcept {
    return to_accumulator(x);
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return math::wrapping_multiply(a, b); }
  SLUICE_HD Out finish(Acc a) const noexcept { return static_cast<Out>(a); }
};

/// Largest or smallest, of magnitudes perhaps. A NaN once met stays. One type for all of them: half as much to compile.
template <class T>
struct ExtremeOf {
  using Acc = Accumulator<T>;
  using Out = T;
  bool largest = true;
  bool absolute = false;

  SLUICE_HD Acc identity() const noexcept {
    using Limits = std::numeric_limits<Acc>;
    if (absolute)
      return Acc{0};
    if constexpr (std::is_integral_v<T>) {
      return largest ? Limits::min() : Limits::max();
    } else {
      return largest ? -Limits::infinity() : Limits::infinity();
    }
  }
  template <class X>
  SLUICE_HD Acc lift(X x) const noexcept {
    const Acc value = to_accumulator(x);
    return absolute ? magnitude_of(value) : value;
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return largest ? larger_or_nan(a, b) : smaller_or_nan(a, b); }
  SLUICE_HD Out finish(Acc a) const noexcept { return static_cast<Out>(a); }
};

template <class A>
struct Moments {
  A terms, shift, mean, squares;  // the mean less the shift, squares of distances from the mean
};

/// Variance or its root (Welford 1962; Chan, Golub, LeVeque 1979): sums of squares would cancel. Of distances from the
/// first term: a mean far from 0 is rounded by more than the terms may be apart.
template <class T>
struct MomentsOf {
  using Number = Accumulator<T>;
  using Acc = Moments<Number>;
  using Out = T;
  double divisor = 1;
  bool root = false;

  SLUICE_HD static Acc identity() noexcept { return {0, 0, 0, 0}; }
  template <class X>
  SLUICE_HD static Acc lift(X x) noexcept {
    return {1, to_accumulator(x), 0, 0 * to_accumulator(x)};
  }
  template <class X>
  SLUICE_HD Acc add(Acc a, X x) const noexcept {
    const Number shift = a.terms == 0 ? to_accumulator(x) : a.shift, value = to_accumulator(x) - shift;
    const Number distance = value - a.mean, terms = a.terms + 1, mean = a.mean + distance / terms;
    return {terms, shift, mean, a.squares + distance * (value - mean)};
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept {
    if (a.terms == 0 || b.terms == 0)
      return a.terms == 0 ? b : a;
    const Number terms = a.terms + b.terms, share = b.terms / terms;
    const Number distance = (b.shift - a.shift) + (b.mean - a.mean);
    const Number squares = a.squares + b.squares + distance * distance * (a.terms * share);
    return {terms, a.shift, a.mean + distance * share, squares};
  }
  SLUICE_HD Out finish(Acc a) const noexcept {
    const Number mean_square = a.squares / static_cast<Number>(divisor > 0 ? divisor : 0);
    return static_cast<Out>(root ? std::sqrt(mean_square) : mean_square);
  }
};

/// Sum of magnitudes, or of what is no NaN: one type for both, half as much to compile.
template <class T>
struct ChangedSumOf {
  using Acc = Accumulator<T>;
  using Out = T;
  bool absolute = true;

  SLUICE_HD static Acc identity() noexcept { return Acc{0}; }
  template <class X>
  SLUICE_HD Acc lift(X x) const noexcept {
    const Acc value = to_accumulator(x);
    return absolute ? magnitude_of(value) : is_nan(value) ? Acc{0} : value;
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return math::wrapping_add(a, b); }
  SLUICE_HD Out finish(Acc a) const noexcept { return static_cast<Out>(a); }
};

template <class T>
auto sum_without_nans() noexcept {
  if constexpr (std::is_integral_v<T>) {
    return SumOf<T>();
  } else {
    return ChangedSumOf<T>{false};
  }
}

template <class A>
struct ScaledSquares {
  A big, middle, small;  // sums of squares, of big and small numbers scaled by powers of two
};

/// Root of the sum of squares (Blue 1978, constants of Anderson 2017): no square overflows or is lost.
template <class T>
struct SquaresOf {
  using Number = Accumulator<T>;
  using Acc = ScaledSquares<Number>;
  using Out = T;
  static constexpr bool k_double = sizeof(Number) == 8;
  static constexpr Number k_small = k_double ? static_cast<Number>(0x1p-511) : static_cast<Number>(0x1p-63);
  static constexpr Number k_big = k_double ? static_cast<Number>(0x1p486) : static_cast<Number>(0x1p52);
  static constexpr Number k_enlarge = k_double ? static_cast<Number>(0x1p537) : static_cast<Number>(0x1p75);
  static constexpr Number k_shrink = k_double ? static_cast<Number>(0x1p-538) : static_cast<Number>(0x1p-76);

  SLUICE_HD static Acc identity() noexcept { return {0, 0, 0}; }
  template <class X>
  SLUICE_HD static Acc lift(X x) noexcept {
    const Number value = magnitude_of(to_accumulator(x));
    const bool big = value > k_big, small = value < k_small;  // neither is a NaN
    const Number scaled = value * (big ? k_shrink : small ? k_enlarge : Number{1}), square = scaled * scaled;
    return {big ? square : 0, big || small ? 0 : square, small ? square : 0};
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return {a.big + b.big, a.middle + b.middle, a.small + b.small}; }
  SLUICE_HD Out finish(Acc a) const noexcept {
    if (a.big > 0 || is_nan(a.big))  // small ones beside these are nothing
      return static_cast<Out>(std::sqrt(a.big + a.middle * k_shrink * k_shrink) / k_shrink);
    if (a.middle > 0 || is_nan(a.middle))
      return static_cast<Out>(std::sqrt(a.middle + a.small / k_enlarge / k_enlarge));
    return static_cast<Out>(std::sqrt(a.small) / k_enlarge);
  }
};

template <class A>
struct Exponentials {
  A largest, sum;  // the sum of e^(x - largest)
};

/// log(sum(e^x)): sums relative to the largest term so far.
template <class T>
struct ExponentialsOf {
  using Number = Accumulator<T>;
  using Acc = Exponentials<Number>;
  using Out = T;

  SLUICE_HD static Acc identity() noexcept { return {-std::numeric_limits<Number>::infinity(), 0}; }
  template <class X>
  SLUICE_HD static Acc lift(X x) noexcept {
    return {to_accumulator(x), 1};
  }
  /// e^(x - largest), 1 of equal infinities too.
  SLUICE_HD static Number relative(Number x, Number largest) noexcept {
    return x == largest ? Number{1} : std::exp(x - largest);
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept {
    const Number largest = a.largest >= b.largest ? a.largest : b.largest;  // if one is a NaN the sum is
    return {largest, a.sum * relative(a.largest, largest) + b.sum * relative(b.largest, largest)};
  }
  SLUICE_HD Out finish(Acc a) const noexcept { return static_cast<Out>(a.largest + std::log(a.sum)); }
};

/// How many are not 0, or whether at least so many are.
template <class T, class Result>
struct NonzerosOf {
  using Acc = std::int64_t;
  using Out = Result;
  double least = 0;

  SLUICE_HD static Acc identity() noexcept { return 0; }
  template <class X>
  SLUICE_HD static Acc lift(X x) noexcept {
    return to_accumulator(x) != 0 ? 1 : 0;
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return a + b; }
  SLUICE_HD Out finish(Acc a) const noexcept {
    if constexpr (std::is_same_v<Out, bool>) {
      return static_cast<double>(a) >= least;
    } else {
      return a;
    }
  }
};

}  // namespace sluice::detail
