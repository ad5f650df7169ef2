#include <algorithm>
#include <cmath>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/update/update.h>

namespace sluice::gluon::optimizer {

namespace {

constexpr const char* k_count_name = "num_updates";

void require_range(const char* what, double value, double low, double high) {
  require(std::isfinite(value) && value >= low && value <= high, [&] {
    return message(what, " is ", value, ", it must be within [", low, ", ", high, "]");
  });
}

constexpr double k_any = std::numeric_limits<double>::max();

}  // namespace

Optimizer::Optimizer(double learning_rate) {
  set_learning_rate(learning_rate);
}

void Optimizer::set_learning_rate(double learning_rate) {
  require_range("learning_rate", learning_rate, 0, k_any);
  learning_rate_ = learning_rate;
}

void Optimizer::update(std::span<const ParameterDict::Entry> parameters, double rescale_grad) {
  if (parameters.empty())
    return;
  autograd::PauseScope pause;
  Step step{.rescale_grad = rescale_grad, .number = num_updates_ + 1, .parameters = parameters};
  bool factors = false;
  for (const auto& [name, parameter] : parameters) {
    step.weights.push_back(parameter.data());
    step.grads.push_back(parameter.grad());
    factors |= parameter.lr_mult() != 1 || parameter.wd_mult() != 1;
  }
  if (factors) {
    for (const auto& [name, parameter] : parameters) {
      step.learning_rate_multipliers.push_back(parameter.lr_mult());
      step.weight_decay_multipliers.push_back(parameter.wd_mult());
    }
  }
  apply(step);
  ++num_updates_;
}

std::vector<NDArray> Optimizer::state(const Step& step, const std::string& slot) {
  std::vector<NDArray> arrays;
  arrays.reserve(step.parameters.size());
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    const NDArray& weight = step.weights[i];
    const std::string name = step.parameters[i].first + "." + slot;
    NDArray& held = states_[name];
    if (!held.defined()) {
      const DType dtype = weight.dtype() == float64 ? float64 : float32;
      held = zeros(weight.shape(), {.dtype = dtype, .device = weight.device()});
    } else if (held.device() != weight.device()) {
      held = held.to(weight.device());
    }
    require<ShapeError>(held.shape() == weight.shape(), [&] {
      return message("optimizer state '", name, "' has shape ", held.shape(), ", the parameter has ", weight.shape());
    });
    arrays.push_back(held);
  }
  return arrays;
}

Optimizer::States Optimizer::states() const {
  States all = states_;
  all[k_count_name] = array<std::int64_t>({num_updates_});
  return all;
}

void Optimizer::load_states(const States& states) {
  const auto count = states.find(k_count_name);
  require(count != states.end() && count->second.size() == 1 && count->second.dtype() == int64, [&] {
    return message("optimizer states lack the entry '", k_count_name, "', one int64");
  });
  const std::int64_t number = count->second.item<std::int64_t>();
  require(number >= 0, [&] { return message("optimizer states: '", k_count_name, "' is ", number); });
  states_ = states;
  states_.erase(k_count_name);
  num_updates_ = number;
}

SGD::SGD(SGDOptions options) : Optimizer(options.learning_rate), options_(options) {
  require_range("SGD: momentum", options.momentum, 0, 1);
  require_range("SGD: weight_decay", options.weight_decay, 0, k_any);
}

void SGD::apply(const Step& step) {
  const std::vector<NDArray> momenta = options_.momentum == 0 ? std::vector<NDArray>() : state(step, "momentum");
  sgd_update(
      step.weights,
      step.grads,
      momenta,
      {.learning_rate = learning_rate(),
       .momentum = options_.momentum,
       .weight_decay = options_.weight_decay,
       .rescale_grad = step.rescale_grad,
       .clip_gradient = options_.clip_gradient,
       .learning_rate_multipliers = step.learning_rate_multipliers,
       .weight_decay_multipliers = step.weight_decay_multipliers});
}

Adam::Adam(AdamOptions options) : Optimizer(options.learning_rate), options_(options) {
  require_range("Adam: beta1", options.beta1, 0, 1);
  require_range("Adam: beta2", options.beta2, 0, 1);
  require_range("Adam: epsilon", options.epsilon, 0, k_any);
  require_range("Adam: weight_decay", options.weight_decay, 0, k_any);
}

void Adam::apply(const Step& step) {
  const std::vector<NDArray> means = state(step, "mean"), variances = state(step, "variance");
  adam_update(
      step.weights,
      step.grads,
      means,
      variances,
      {.learning_rate = learning_rate(),
       .beta1 = options_.beta1,
       .beta2 = options_.beta2,
       .epsilon = options_.epsilon,
       .weight_decay = options_.weight_decay,
       .rescale_grad = step.rescale_grad,
       .clip_gradient = options_.clip_gradient,
       .step = step.number,
       .learning_rate_multipliers = step.learning_rate_multipliers,
       .weight_decay_multipliers = step.weight_decay_multipliers});
}

}  // namespace sluice::gluon::optimizer
