#pragma once

// Fifty steps of an optimizer against a formula.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/gluon/support.h"

namespace sluice::test {

using Numbers = std::vector<double>;

/// What a formula has of one parameter.
struct Told {
  Numbers w, g;     // the gradient, rescaled and clipped
  int t;            // counted from 1
  Numbers a, b, c;  // states, zeros at first
  std::int64_t rows, columns;
  double lr;           // at this step
  Numbers whole = {};  // the gradient, rescaled alone

  std::size_t size() const { return w.size(); }
  double norm(const Numbers& of) const {
    double sum = 0;
    for (const double value : of)
      sum += value * value;
    return std::sqrt(sum);
  }
};

inline double cut(double value, double clip) {
  return clip < 0 ? value : std::clamp(value, -clip, clip);
}

using Formula = std::function<void(Told&)>;

/// The gradient at step t: of both signs, now and then 0.
inline Numbers gradient(std::size_t size, int t) {
  Numbers all;
  for (std::size_t i = 0; i < size; ++i)
    all.push_back((static_cast<double>((i * 31 + static_cast<std::size_t>(t) * 17) % 41) - 20) / 8);
  return all;
}

/// A matrix and a vector, 50 steps at a batch of 2, gradients clipped where `clip` says so.
inline void check_steps(
    std::unique_ptr<gluon::optimizer::Optimizer> made, double lr, double clip, const Formula& formula) {
  const Shape shapes[] = {{3, 4}, {5}};
  ParameterDict parameters;
  std::vector<Told> told;
  for (std::size_t i = 0; i < 2; ++i) {
    const Parameter parameter(i == 0 ? "weight" : "other", {.shape = shapes[i], .dtype = float64});
    const NDArray begin = pattern_array(shapes[i], static_cast<int>(i) * 5).astype(float64);
    parameter.set_data(begin);
    parameters.insert(parameter.name(), parameter);
    const Numbers zeros(static_cast<std::size_t>(begin.size()));
    told.push_back({begin.to_vector<double>(), {}, 0, zeros, zeros, zeros, shapes[i][0], i == 0 ? 4 : 1, lr});
  }
  Trainer trainer(parameters, std::move(made));
  for (int t = 1; t <= 50; ++t) {
    NDArray loss;
    {
      const autograd::RecordScope record;
      for (const auto& [name, parameter] : parameters) {
        const auto n = static_cast<std::size_t>(parameter.data().size());
        const NDArray part = sum(parameter.data() * array(gradient(n, t), parameter.shape()));
        loss = loss.defined() ? loss + part : part;
      }
    }
    loss.backward();
    trainer.step(2);
    std::size_t at = 0;
    for (const auto& [name, parameter] : parameters) {
      Told& one = told[at++];
      one.t = t;
      one.g = gradient(one.size(), t);
      for (double& value : one.g)
        value /= 2;
      one.whole = one.g;
      for (double& value : one.g)
        value = cut(value, clip);
      formula(one);
      const Numbers found = parameter.data().to_vector<double>();
      for (std::size_t i = 0; i < found.size(); ++i) {
        INFO("step " << t << ", " << name << " element " << i);
        REQUIRE(found[i] == Approx(one.w[i]).epsilon(1e-9).margin(1e-11));
      }
    }
  }
}

template <class O, class Options>
void check(const Options& options, const Formula& formula) {
  INFO(O(options).name());
  check_steps(std::make_unique<O>(options), options.learning_rate, options.clip_gradient, formula);
}

/// Each element by itself.
inline Formula each(const std::function<void(Told&, std::size_t)>& one) {
  return [one](Told& told) {
    for (std::size_t i = 0; i < told.size(); ++i)
      one(told, i);
  };
}

}  // namespace sluice::test
