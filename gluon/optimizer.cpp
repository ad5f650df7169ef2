#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/engine/region.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/update/numbers.h>
#include <sluice/operator/update/update.h>

namespace sluice::gluon::optimizer {

namespace {

constexpr double k_any = std::numeric_limits<double>::max();
constexpr double k_below_one = 1 - std::numeric_limits<double>::epsilon() / 2;

void require_range(const char* what, double value, double low, double high) {
  require(std::isfinite(value) && value >= low && value <= high, [&] {
    return high == k_any         ? message(what, " is ", value, ", it must be finite and at least ", low)
           : high == k_below_one ? message(what, " is ", value, ", it must be at least ", low, " and less than 1")
                                 : message(what, " is ", value, ", it must be within [", low, ", ", high, "]");
  });
}

void require_clip(const char* optimizer, double clip) {
  require(!std::isnan(clip), [&] {
    return message(optimizer, ": clip_gradient is ", clip, ", it must be a number; a negative one is for none");
  });
}

// Sets of parameters are told apart by it.
std::vector<std::string> names_of(std::span<const ParameterDict::Entry> parameters) {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters)
    names.push_back(name);
  return names;
}

}  // namespace

Optimizer::Optimizer(double learning_rate) {
  set_learning_rate(learning_rate);
}

void Optimizer::set_learning_rate(double learning_rate) {
  require_range("learning_rate", learning_rate, 0, k_any);
  learning_rate_ = learning_rate;
}

Optimizer::Step Optimizer::step_of(
    std::span<const ParameterDict::Entry> parameters, double rescale_grad, SourceLocation site) const {
  Step step{.rescale_grad = rescale_grad, .parameters = parameters, .site = site};
  bool factors = false;
  const Device device = parameters[0].second.data().device();
  for (const auto& [name, parameter] : parameters) {
    step.weights.push_back(parameter.data());
    step.grads.push_back(parameter.grad());
    step.numbers.push_back(num_updates(name) + 1);
    factors |= parameter.lr_mult() != 1 || parameter.wd_mult() != 1;
    require<DeviceError>(parameter.data().device() == device, [&, &name = name, &parameter = parameter] {
      return message(
          "parameter '",
          parameters[0].first,
          "' is on ",
          device,
          ", '",
          name,
          "' on ",
          parameter.data().device(),
          "; one optimizer updates parameters of one device: move the network with to(device)");
    });
  }
  if (factors) {
    for (const auto& [name, parameter] : parameters) {
      step.learning_rate_multipliers.push_back(parameter.lr_mult());
      step.weight_decay_multipliers.push_back(parameter.wd_mult());
    }
  }
  return step;
}

void Optimizer::count(const Step& step) {
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    counts_[step.parameters[i].first] = step.numbers[i];
  ++num_updates_;
}

void Optimizer::refuse_in_region() const {
  require(!region_records(), [&] {
    return name() +
           ": a region would repeat the rates of this step; prepare() each step before the region runs, and "
           "record update_prepared()";
  });
}

void Optimizer::update(std::span<const ParameterDict::Entry> parameters, double rescale_grad, SourceLocation site) {
  if (parameters.empty())
    return;
  refuse_in_region();
  autograd::PauseScope pause;
  Step step = step_of(parameters, rescale_grad, site);
  if (sluice::detail::calls_are_taken())
    write_numbers(step);
  apply(step);
  count(step);
}

void Optimizer::prepare(std::span<const ParameterDict::Entry> parameters, double rescale_grad, SourceLocation site) {
  if (parameters.empty())
    return;
  refuse_in_region();
  const autograd::PauseScope pause;
  const CallSinkScope nobody(nullptr);
  Step step = step_of(parameters, rescale_grad, site);
  for (const std::string& slot : needed_slots(true))
    state(step, slot);  // made here: a recorded step would make it again each time
  write_numbers(step);
  count(step);
}

void Optimizer::update_prepared(std::span<const ParameterDict::Entry> parameters, SourceLocation site) {
  if (parameters.empty())
    return;
  const autograd::PauseScope pause;
  Step step = step_of(parameters, 1, site);
  const auto prepared = numbers_.find(names_of(parameters));
  require(prepared != numbers_.end(), [&] {
    return message(
        name(),
        ": a step of these ",
        parameters.size(),
        " parameters, '",
        parameters[0].first,
        "' the first, was not prepared: call prepare() for them before, outside what is recorded");
  });
  step.in_memory = prepared->second.array;
  apply(step);
}

void Optimizer::cancel(std::span<const ParameterDict::Entry> parameters) {
  if (parameters.empty())
    return;
  for (const auto& [name, parameter] : parameters)
    --counts_[name];
  --num_updates_;
  if (const auto numbers = numbers_.find(names_of(parameters)); numbers != numbers_.end())
    numbers->second.values.clear();  // perhaps they did not arrive
}

std::vector<NDArray> Optimizer::step_arrays(std::span<const ParameterDict::Entry> parameters) const {
  std::vector<NDArray> arrays;
  if (const auto numbers = numbers_.find(names_of(parameters)); numbers != numbers_.end())
    arrays.push_back(numbers->second.array);
  for (const auto& [name, parameter] : parameters) {
    for (const std::string& slot : slots()) {
      if (const auto state = states_.find(name + "." + slot); state != states_.end())
        arrays.push_back(state->second);
    }
  }
  return arrays;
}

std::int64_t Optimizer::num_updates(const std::string& parameter) const noexcept {
  const auto found = counts_.find(parameter);
  return found == counts_.end() ? 0 : found->second;
}

std::vector<NDArray> Optimizer::state(const Step& step, const std::string& slot) {
  std::vector<NDArray> arrays;
  arrays.reserve(step.parameters.size());
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    const NDArray& weight = step.weights[i];
    const std::string name = step.parameters[i].first + "." + slot;
    NDArray& held = states_[name];
    if (!held.defined()) {
      held = zeros(weight.shape(), {.dtype = state_type(weight.dtype()), .device = weight.device()}, step.site);
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

void Optimizer::write_numbers(Step& step) {
  const CallSinkScope nobody(nullptr);
  const std::vector<double> values = numbers_of(step);
  const Device device = step.weights.front().device();
  Numbers& kept = numbers_[names_of(step.parameters)];
  if (!kept.array.defined() || kept.array.size() != std::ssize(values) || kept.array.device() != device)
    kept.array =
        array(values, {std::ssize(values)}, device, step.site);  // what was recorded there holds old weights too
  else if (kept.values != values)
    sluice::detail::write_words(std::span<const double>(values), kept.array, step.site);
  kept.values = values;
  step.in_memory = kept.array;
}

std::vector<double> Optimizer::numbers_of(const Step& /*step*/) const {
  throw UnsupportedError(
      name() +
      ": its steps cannot be recorded, since it does not say what changes from step to step; override numbers_of()");
}

SGD::SGD(SGDOptions options) : Optimizer(options.learning_rate), options_(options) {
  require_range("SGD: momentum", options.momentum, 0, 1);
  require_range("SGD: weight_decay", options.weight_decay, 0, k_any);
  require_clip("SGD", options.clip_gradient);
}

SgdUpdate SGD::update_of(const Step& step) const {
  return {
      .learning_rate = learning_rate(),
      .momentum = options_.momentum,
      .weight_decay = options_.weight_decay,
      .rescale_grad = step.rescale_grad,
      .clip_gradient = options_.clip_gradient,
      .learning_rate_multipliers = step.learning_rate_multipliers,
      .weight_decay_multipliers = step.weight_decay_multipliers,
      .numbers = step.in_memory};
}

void SGD::apply(const Step& step) {
  const std::vector<NDArray> momenta = options_.momentum == 0 ? std::vector<NDArray>() : state(step, "momentum");
  sgd_update(step.weights, step.grads, momenta, update_of(step), step.site);
}

std::vector<double> SGD::numbers_of(const Step& step) const {
  return update_numbers(update_of(step), step.weights.size());
}

Adam::Adam(AdamOptions options) : Optimizer(options.learning_rate), options_(options) {
  require_range("Adam: beta1", options.beta1, 0, k_below_one);  // at 1 nothing is ever learnt
  require_range("Adam: beta2", options.beta2, 0, k_below_one);
  require_range("Adam: epsilon", options.epsilon, 0, k_any);
  require_range("Adam: weight_decay", options.weight_decay, 0, k_any);
  require_clip("Adam", options.clip_gradient);
}

AdamUpdate Adam::update_of(const Step& step) const {
  return {
      .learning_rate = learning_rate(),
      .beta1 = options_.beta1,
      .beta2 = options_.beta2,
      .epsilon = options_.epsilon,
      .weight_decay = options_.weight_decay,
      .rescale_grad = step.rescale_grad,
      .clip_gradient = options_.clip_gradient,
      .steps = step.numbers,
      .learning_rate_multipliers = step.learning_rate_multipliers,
      .weight_decay_multipliers = step.weight_decay_multipliers,
      .numbers = step.in_memory};
}

void Adam::apply(const Step& step) {
  const std::vector<NDArray> means = state(step, "mean"), variances = state(step, "variance");
  adam_update(step.weights, step.grads, means, variances, update_of(step), step.site);
}

std::vector<double> Adam::numbers_of(const Step& step) const {
  return update_numbers(update_of(step));
}

}  // namespace sluice::gluon::optimizer
