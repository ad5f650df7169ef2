#pragma once

#include <cstdint>

#include <sluice/operator/update/work.h>

namespace sluice::simd {

/// Neighbours of one parameter that step together; states that the rule does not use are null. Nothing overlaps.
template <class C>
struct UpdateRun {
  C* weight = nullptr;
  const C* grad = nullptr;
  C* state[detail::k_most_states] = {};
  C* direction[2] = {};  // set: the first pass of a rule with two, which writes there and leaves the weight
  std::int64_t n = 0;
  detail::Rates<C> rates = {};
  detail::GradientForm<C> form = {};
};

/// The rule's step() of every element, or its directions(), in the vectors of target(), with the very bits of the plain
/// loop: only sums, products, quotients and roots stand in it. False, and nothing done, if there are none. C is float
/// or double.
template <class C>
bool update(const detail::AnyRule<C>& rule, const UpdateRun<C>& run);

}  // namespace sluice::simd
