#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <sluice/operator/control/detail/loop.h>

namespace sluice::control {

/// A while_loop's parts, and how many arrays its condition uses beside the states.
struct WhileParts {
  LoopParts body;
  std::size_t asked = 0;

  /// Throws ValueError where the subgraphs take other numbers.
  WhileParts(const WhileAttributes& a, std::size_t inputs) : body("while_loop", a.body, 0, a.states, 0) {
    require<ValueError>(!a.condition.empty() && a.condition.graph().outputs.size() == 1, [] {
      return "while_loop: has no condition that gives one array";
    });
    const std::size_t takes = a.condition.graph().inputs.size();
    asked = takes - std::min(takes, body.states);
    const std::size_t all = body.states + asked + body.captured;
    const bool fits = body.states > 0 && takes >= body.states && all == inputs && a.max_iterations >= 0 &&
                      (!a.saves || body.states <= body.stacked);
    require<ValueError>(fits, [&] {
      return message(
          "while_loop: ",
          a.max_iterations,
          " turns of ",
          body.states,
          " states take ",
          all,
          " inputs, was given ",
          inputs);
    });
  }

  template <class Array>
  std::vector<Array> of_condition(std::span<const Array> inputs) const {
    const auto given = inputs.first(body.states + asked);
    return {given.begin(), given.end()};
  }
  template <class Array>
  std::vector<Array> of_body(std::span<const Array> inputs) const {
    std::vector<Array> given(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(body.states));
    const auto captured = inputs.last(body.captured);
    given.insert(given.end(), captured.begin(), captured.end());
    return given;
  }
};

}  // namespace sluice::control
