#pragma once

// Layer norm and its like by plain loops in double, and their gradients.
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"

namespace sluice::test {

/// Which row an element is in, and which parameter it has.
struct NormPlaces {
  std::function<std::int64_t(const std::vector<std::int64_t>&)> row, parameter;
  std::int64_t rows = 0, parameters = 0;
};

/// Along one axis, a parameter an element of it.
inline NormPlaces along_axis(const Shape& shape, int axis) {
  Shape rows = shape;
  rows.erase(axis);
  const auto row = [=](std::vector<std::int64_t> index) {
    index.erase(index.begin() + axis);
    return ravel(rows, index);
  };
  return {row, [=](const auto& index) { return index[static_cast<std::size_t>(axis)]; }, rows.size(), shape[axis]};
}

/// Groups of channels on axis 1, a parameter a channel.
inline NormPlaces along_groups(const Shape& shape, std::int64_t groups) {
  const std::int64_t each = shape[1] / groups;
  return {
      [=](const auto& index) { return index[0] * groups + index[1] / each; },
      [](const auto& index) { return index[1]; },
      shape[0] * groups,
      shape[1]};
}

struct NormReference {
  NDArray y, dx, dgamma, dbeta;
};

/// All of it for a head `dy`; `centred`: around the mean.
inline NormReference norm_reference(
    const NDArray& x,
    const NDArray& gamma,
    const std::optional<NDArray>& beta,
    const NDArray& dy,
    const NormPlaces& places,
    bool centred,
    double eps) {
  const Dense from(x), head(dy), scale(gamma);
  const Dense shift = beta ? Dense(*beta) : Dense(gamma.shape(), 0);
  const auto rows = static_cast<std::size_t>(places.rows);
  std::vector<double> count(rows), mean(rows), inverse(rows), plain(rows), by_x(rows);
  std::vector<std::size_t> row_of(from.values.size()), parameter_of(from.values.size());
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    const auto index = unravel(from.shape, static_cast<std::int64_t>(i));
    row_of[i] = static_cast<std::size_t>(places.row(index));
    parameter_of[i] = static_cast<std::size_t>(places.parameter(index));
    count[row_of[i]] += 1;
    mean[row_of[i]] += centred ? from.values[i] : 0;
  }
  for (std::size_t r = 0; r < rows; ++r)
    mean[r] /= count[r] > 0 ? count[r] : 1;
  for (std::size_t i = 0; i < from.values.size(); ++i)
    inverse[row_of[i]] += std::pow(from.values[i] - mean[row_of[i]], 2);
  for (std::size_t r = 0; r < rows; ++r)
    inverse[r] = 1 / std::sqrt(inverse[r] / count[r] + eps);
  Dense y(from.shape, 0), dx(from.shape, 0), dgamma(scale.shape, 0), dbeta(scale.shape, 0);
  const auto normal = [&](std::size_t i) { return (from.values[i] - mean[row_of[i]]) * inverse[row_of[i]]; };
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    const std::size_t p = parameter_of[i];
    y.values[i] = normal(i) * scale.values[p] + shift.values[p];
    plain[row_of[i]] += centred ? head.values[i] * scale.values[p] : 0;
    by_x[row_of[i]] += head.values[i] * scale.values[p] * normal(i);
    dgamma.values[p] += head.values[i] * normal(i);
    dbeta.values[p] += head.values[i];
  }
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    const std::size_t r = row_of[i];
    const double scaled = head.values[i] * scale.values[parameter_of[i]];
    dx.values[i] = inverse[r] * (scaled - plain[r] / count[r] - normal(i) * by_x[r] / count[r]);
  }
  return {y.array(), dx.array(), dgamma.array(), dbeta.array()};
}

/// A result and the gradients of all inputs under a head.
inline std::vector<NDArray> with_gradients(
    const std::function<NDArray(const std::vector<NDArray>&)>& f,
    const std::vector<NDArray>& inputs,
    const NDArray& dy) {
  std::vector<NDArray> variables;
  for (const NDArray& input : inputs) {
    variables.push_back(input.detach());
    variables.back().attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = f(variables);
  }
  y.backward(dy);
  std::vector<NDArray> all{y};
  for (const NDArray& variable : variables)
    all.push_back(variable.grad());
  return all;
}

}  // namespace sluice::test
