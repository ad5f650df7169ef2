#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <sluice/operator/reduce/states.h>

// The state of reductions that say where a term stands.
namespace sluice::detail {

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

/// Where the largest or smallest term stands, the first of equals; a NaN is the best of all. Ordered so that the
/// largest number is the best: half as much to compile.
template <class T>
struct PlaceOf {
  static constexpr bool k_placed = true;
  using Narrow = std::conditional_t<sizeof(T) <= 4, std::int32_t, std::int64_t>;
  using Number = std::conditional_t<std::is_integral_v<T>, Narrow, Accumulator<T>>;
  using Acc = Candidate<Number>;
  using Out = std::int64_t;
  Number flip = 1;

  explicit PlaceOf(bool largest) : flip(std::is_integral_v<T> ? (largest ? 0 : -1) : (largest ? 1 : -1)) {}

  /// Nothing is worse, and if nothing was better the first term is the best.
  SLUICE_HD static Acc identity() noexcept {
    using Limits = std::numeric_limits<Number>;
    return {std::is_integral_v<T> ? Limits::lowest() : -Limits::infinity(), 0};
  }
  SLUICE_HD Number ordered(T x) const noexcept {
    const auto value = static_cast<Number>(x);
    if constexpr (std::is_integral_v<T>) {
      return value ^ flip;
    } else {
      return value * flip;
    }
  }
  /// Terms number place, place + apart, ..: the best of them alone is compared with what was the best so far.
  template <int V>
  SLUICE_HD void take(Acc& best, const T (&terms)[V], std::int64_t place, std::int64_t apart = 1) const noexcept {
    Number value[V];
    for (int j = 0; j < V; ++j)
      value[j] = ordered(terms[j]);
    Number here = value[0];
    for (int j = 1; j < V; ++j)
      here = larger_or_nan(here, value[j]);
    if (here <= best.value || is_nan(best.value))
      return;
    int first = V - 1;
    if (is_nan(here)) {
      for (int j = V - 2; j >= 0; --j)
        first = is_nan(value[j]) ? j : first;
    } else {
      for (int j = V - 2; j >= 0; --j)
        first = value[j] == here ? j : first;
    }
    best = {here, place + first * apart};
  }
  SLUICE_HD static Acc join(const Acc& a, const Acc& b) noexcept { return better<true>(a, b); }
  SLUICE_HD static Out finish(const Acc& a) noexcept { return a.index; }
};

}  // namespace sluice::detail
