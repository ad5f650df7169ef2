#pragma once

#include <cstdint>

#include <sluice/operator/update/rule.h>

namespace sluice::simd {

/// Neighbours of one parameter that step together; states that the rule does not use are null. Nothing overlaps.
template <class C>
struct UpdateRun {
  C* weight = nullptr;
  const C* grad = nullptr;
  C* first = nullptr;
  C* second = nullptr;
  std::int64_t n = 0;
  C learning_rate = 0;
  C weight_decay = 0;
};

/// UpdateRule::step() of every element, in the vectors of target(), with the very bits of the plain loop: only sums,
/// products, quotients and roots stand in it. False, and nothing done, if there are none. C is float or double.
template <class C>
bool update(const detail::UpdateRule<C>& rule, const UpdateRun<C>& run);

}  // namespace sluice::simd
