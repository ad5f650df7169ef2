#pragma once

// Gradients against finite differences, for any function of arrays in float64.
#include <functional>
#include <string>
#include <vector>

#include <sluice/ndarray/api.h>

#include "tests/support/compare.h"

namespace sluice::test {

/// A function of some arrays; its result may have any shape.
using Function = std::function<NDArray(const std::vector<NDArray>&)>;

struct GradientOptions {
  double step = 1e-6;
  Tolerance tolerance{1e-5, 1e-7};
};

namespace gradient_parts {

inline double weighted_sum(const NDArray& y, const NDArray& weights) {
  const auto values = y.to_vector<double>(), by = weights.to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    total += values[i] * by[i];
  return total;
}

/// d weighted_sum(f) / d inputs[k], one element at a time, by central differences.
inline NDArray numeric_gradient(
    const Function& f, std::vector<NDArray> inputs, std::size_t k, const NDArray& weights, double step) {
  const auto at = inputs[k].to_vector<double>();
  std::vector<double> gradient(at.size());
  const auto value_at = [&](std::size_t i, double x) {
    std::vector<double> moved = at;
    moved[i] = x;
    inputs[k] = array(moved, inputs[k].shape(), inputs[k].device());
    return weighted_sum(f(inputs), weights);
  };
  for (std::size_t i = 0; i < at.size(); ++i)
    gradient[i] = (value_at(i, at[i] + step) - value_at(i, at[i] - step)) / (2 * step);
  return array(gradient, inputs[k].shape(), inputs[k].device());
}

}  // namespace gradient_parts

/// Compares the recorded gradient of `f` with finite differences for every float64 input (others are held fixed),
/// under random head gradients. Empty if they agree; otherwise which input differs, and how.
inline std::string gradient_differences(
    const Function& f, const std::vector<NDArray>& inputs, const GradientOptions& options = {}) {
  std::vector<NDArray> variables;
  for (const NDArray& input : inputs) {
    variables.push_back(input.dtype() == float64 ? input.detach() : input);
    if (input.dtype() == float64)
      variables.back().attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = f(variables);
  }
  const NDArray weights = random_array(y.shape(), 97, 0.5, 1.5, float64, y.device());
  y.backward(weights);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].dtype() != float64)
      continue;
    const autograd::TrainScope same_mode;
    const NDArray want = gradient_parts::numeric_gradient(f, inputs, k, weights, options.step);
    const std::string found = differences(variables[k].grad(), want, options.tolerance);
    if (!found.empty())
      return message("gradient of input ", k, ": ", found);
  }
  return {};
}

}  // namespace sluice::test
