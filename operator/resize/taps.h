#pragma once

#include <cstdint>
#include <vector>

#include <sluice/operator/resize/tap_rule.h>

// Which elements along an axis a resized one is mixed of, and the other way round.
namespace sluice::detail {

/// For each of `to` results the terms [begin[i], begin[i + 1]): a place below `from`, and its weight. An outermost
/// element that stands for some beyond it is one term: an infinite one may not meet itself times 0 or less. C is the
/// type that is computed in.
template <class C>
struct Taps {
  std::int64_t from = 0, to = 0;
  std::vector<std::int64_t> begin;
  std::vector<std::int32_t> place;
  std::vector<C> weight;

  std::int64_t count(std::int64_t i) const noexcept { return begin[i + 1] - begin[i]; }
  /// Result i is an element as it is.
  bool is_copy(std::int64_t i) const noexcept { return count(i) == 1 && weight[begin[i]] == 1; }
};

/// Of all results, weights rounded once.
template <class C>
Taps<C> taps_of(const TapRule& rule);

/// What each of `from` elements gives to: terms in the order of the results.
template <class C>
Taps<C> turned(const Taps<C>& taps);

}  // namespace sluice::detail
