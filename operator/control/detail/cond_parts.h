#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/operator/control/attributes.h>

namespace sluice::control {

/// How many of a cond's inputs behind the predicate are what.
struct CondParts {
  std::size_t shared = 0, first = 0, second = 0;

  /// Throws ValueError where the bodies take other numbers.
  CondParts(const CondAttributes& a, std::size_t inputs) {
    require<ValueError>(!a.then_body.empty() && !a.else_body.empty(), [] { return "cond: has no two bodies"; });
    const auto takes = std::ssize(a.then_body.graph().inputs), other = std::ssize(a.else_body.graph().inputs);
    const bool fits = a.inputs >= 0 && a.inputs <= std::min(takes, other) &&
                      1 + takes + other - a.inputs == static_cast<std::ptrdiff_t>(inputs);
    require<ValueError>(fits, [&] {
      return message(
          "cond: bodies of ",
          takes,
          " and ",
          other,
          " inputs, ",
          a.inputs,
          " in common, were given ",
          inputs,
          " arrays");
    });
    shared = static_cast<std::size_t>(a.inputs);
    first = static_cast<std::size_t>(takes - a.inputs);
    second = static_cast<std::size_t>(other - a.inputs);
  }

  /// What one body is given.
  template <class Array>
  std::vector<Array> of(bool truth, std::span<const Array> inputs) const {
    const auto common = inputs.subspan(1, shared);
    const auto own = truth ? inputs.subspan(1 + shared, first) : inputs.last(second);
    std::vector<Array> given(common.begin(), common.end());
    given.insert(given.end(), own.begin(), own.end());
    return given;
  }
};

}  // namespace sluice::control
