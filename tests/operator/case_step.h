#pragma once

// What a case gives by itself: its results, their gradients and the gradients of these.
#include <string>
#include <vector>

#include "tests/operator/differentiable_case.h"
#include "tests/operator/plain_case.h"
#include "tests/support/compare.h"

namespace sluice::test {

/// Of those inputs, which become variables: the result, its gradients, and where `twice` theirs.
inline Arrays results_of(const DifferentiableCase& c, std::vector<NDArray> inputs, bool twice = true) {
  for (NDArray& input : inputs) {
    input = input.detach();
    input.attach_grad();
  }
  const autograd::RecordScope record;
  const NDArray y = c.f(inputs);
  Arrays made{y};
  if (!autograd::on_tape(y))
    return made;
  const NDArray head = random_array(y.shape(), 30, 0.5, 1.5, y.dtype(), y.device());
  std::vector<NDArray> on_tape;
  for (const NDArray& gradient : autograd::grad({&y, 1}, inputs, {&head, 1}, {.create_graph = twice})) {
    if (!gradient.defined())
      continue;
    made.push_back(gradient);
    if (twice && autograd::on_tape(gradient))
      on_tape.push_back(gradient);
  }
  if (!on_tape.empty()) {
    for (const NDArray& gradient : autograd::grad(on_tape, inputs, {})) {
      if (gradient.defined())
        made.push_back(gradient);
    }
  }
  return made;
}

/// Inputs of a case, of `dtype` where it chooses no type itself.
inline std::vector<NDArray> inputs_of(const DifferentiableCase& c, DType dtype, Device device = cpu()) {
  std::vector<NDArray> inputs;
  for (std::size_t i = 0; i < c.shapes.size(); ++i)
    inputs.push_back(random_array(c.shapes[i], 10 + i, c.low, c.high, dtype, device));
  return inputs;
}
inline std::vector<NDArray> inputs_of(const PlainCase& c, DType dtype, Device device = cpu()) {
  std::vector<NDArray> inputs;
  for (const auto& [shape, own] : c.inputs)
    inputs.push_back(random_array(shape, 11 + inputs.size(), c.low, c.high, own.value_or(dtype), device));
  return inputs;
}

}  // namespace sluice::test
