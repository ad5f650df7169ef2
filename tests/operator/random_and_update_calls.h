#pragma once

#include <type_traits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/rule_references.h"

namespace sluice::test {

/// A call of every operator that draws random numbers or updates weights.
inline void call_random_and_updates(Device device) {
  const ArrayOptions there{.device = device};
  const NDArray ones_there = ones({3, 4}, there);
  random::uniform({3, 4}, there);
  random::normal({3, 4}, there);
  random::randint(0, 9, {5}, {.dtype = int32, .device = device});
  random::bernoulli(0.5, {3, 4}, there);
  random::exponential(1, {3, 4}, there);
  random::laplace(0, 1, {3, 4}, there);
  random::gumbel(0, 1, {3, 4}, there);
  random::truncated_normal(0, 1, -1, 1, {3, 4}, there);
  random::gamma(2, 1, {3, 4}, there);
  random::beta(2, 1, {3, 4}, there);
  random::poisson(20, {3, 4}, there);
  random::gamma(ones_there);
  random::poisson(ones_there);
  random::categorical(ones_there, 2);
  random::permutation(5, device);

  const std::vector<NDArray> w = {ones({3})}, g = {ones({3})};
  each_rule([&](const char*, auto rule) {
    if constexpr (std::is_same_v<decltype(rule), update_rules::Lars>)
      rule.plain.clear();
    std::vector<std::vector<NDArray>> states;
    for (std::size_t i = 0; i < rule.states().size(); ++i)
      states.push_back({zeros(update_rules::state_shape(rule, i, {3}))});
    optimizer_update(rule, w, g, states, {.steps = {1}});
  });
  gradient_guard(g, {.max_norm = 1});
}

}  // namespace sluice::test
