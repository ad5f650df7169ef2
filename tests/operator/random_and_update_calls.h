#pragma once

#include <type_traits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/rule_references.h"

namespace sluice::test {

/// A call of every operator that draws random numbers or updates weights.
inline void call_random_and_updates(Device device) {
  const ArrayOptions there{.device = device};
  random::uniform({3, 4}, there);
  random::normal({3, 4}, there);
  random::randint(0, 9, {5}, {.dtype = int32, .device = device});
  random::bernoulli(0.5, {3, 4}, there);
  random::permutation(5);

  const std::vector<NDArray> w = {ones({3})}, g = {ones({3})};
  each_rule([&](const char*, auto rule) {
    if constexpr (std::is_same_v<decltype(rule), update_rules::Lars>)
      rule.plain.clear();
    std::vector<std::vector<NDArray>> states;
    for (std::size_t i = 0; i < rule.states().size(); ++i)
      states.push_back({zeros({3})});
    optimizer_update(rule, w, g, states, {.steps = {1}});
  });
  gradient_guard(g, {.max_norm = 1});
}

}  // namespace sluice::test
