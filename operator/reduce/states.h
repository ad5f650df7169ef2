#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <sluice/ndarray/half.h>

// What a reduction adds up in, and how: one arithmetic for CPU and GPU.
namespace sluice::detail {

/// float for the half types and float, double for double, int64 for integers and bool.
template <class T>
using Accumulator = std::
    conditional_t<std::is_same_v<T, double>, double, std::conditional_t<std::is_integral_v<T>, std::int64_t, float>>;

template <class T>
SLUICE_HD inline Accumulator<T> to_accumulator(T value) noexcept {
  return static_cast<Accumulator<T>>(value);
}

/// Sum, and mean when the divisor is the number of terms.
template <class T>
struct SumOf {
  using Acc = Accumulator<T>;
  using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
  Acc divisor = 1;

  SLUICE_HD static Acc identity() noexcept { return Acc{0}; }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return a + b; }
  SLUICE_HD Out finish(Acc a) const noexcept {
    if constexpr (std::is_integral_v<T>) {
      return a;
    } else {
      return static_cast<Out>(a / divisor);
    }
  }
};

template <class T>
struct ProductOf {
  using Acc = Accumulator<T>;
  using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;

  SLUICE_HD static Acc identity() noexcept { return Acc{1}; }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept { return a * b; }
  SLUICE_HD Out finish(Acc a) const noexcept { return static_cast<Out>(a); }
};

template <class A>
SLUICE_HD inline bool is_nan(A value) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    return value != value;
  } else {
    return false;
  }
}

/// Largest or smallest. A NaN once met stays.
template <class T, bool Largest>
struct ExtremeOf {
  using Acc = Accumulator<T>;
  using Out = T;

  SLUICE_HD static Acc identity() noexcept {
    if constexpr (std::is_integral_v<T>) {
      return Largest ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
    } else {
      return Largest ? -std::numeric_limits<Acc>::infinity() : std::numeric_limits<Acc>::infinity();
    }
  }
  SLUICE_HD Acc join(Acc a, Acc b) const noexcept {
    // A NaN in b fails the comparison and is taken, one in a stays. Without branches, so that loops become vectors.
    const bool keeps = (Largest ? a >= b : a <= b) | is_nan(a);
    return keeps ? a : b;
  }
  SLUICE_HD Out finish(Acc a) const noexcept { return static_cast<Out>(a); }
};

/// A value and where it stands: for argmax and argmin.
template <class Acc>
struct Candidate {
  Acc value;
  std::int64_t index;
};

/// The better one: NaN before numbers, then by value, then the first.
template <bool Largest, class Acc>
SLUICE_HD inline Candidate<Acc> better(const Candidate<Acc>& a, const Candidate<Acc>& b) noexcept {
  const bool a_nan = is_nan(a.value), b_nan = is_nan(b.value);
  bool second;
  if (a_nan || b_nan) {
    second = b_nan && (!a_nan || b.index < a.index);
  } else if (a.value == b.value) {
    second = b.index < a.index;
  } else {
    second = Largest ? b.value > a.value : b.value < a.value;
  }
  return second ? b : a;
}

}  // namespace sluice::detail
