// The functions that call the operators of optimizers.
#include <cstddef>
#include <utility>

#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/update/attributes.h>
#include <sluice/operator/update/every_rule.h>
#include <sluice/operator/update/rules.h>

namespace sluice {

namespace {

using Handles = std::span<const NDArray>;
using Lists = std::span<const std::vector<NDArray>>;

#define SLUICE_UPDATE_RULE(Rule, name)                     \
  const Operator& operator_of(const update_rules::Rule&) { \
    return detail::k_##name;                               \
  }
SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE

// SgdUpdate and AdamUpdate as all rules have it.
template <class Options>
UpdateOptions options_of(const Options& o) {
  return {
      .learning_rate = o.learning_rate,
      .weight_decay = o.weight_decay,
      .rescale_grad = o.rescale_grad,
      .clip_gradient = o.clip_gradient,
      .steps = {},
      .learning_rate_multipliers = o.learning_rate_multipliers,
      .weight_decay_multipliers = o.weight_decay_multipliers,
      .numbers = o.numbers,
      .masters = o.masters,
      .guard = o.guard};
}

UpdateOptions adam_options(const AdamUpdate& o) {
  UpdateOptions made = options_of(o);
  made.steps = o.steps;
  return made;
}

std::vector<NDArray> list_of(Handles handles) {
  return {handles.begin(), handles.end()};
}

// Inputs in the order that the operator takes them in.
std::vector<NDArray> inputs_of(Handles weights, Handles grads, Lists states, const UpdateOptions& options) {
  std::vector<NDArray> inputs = list_of(weights);
  inputs.insert(inputs.end(), grads.begin(), grads.end());
  for (const std::vector<NDArray>& list : states)
    inputs.insert(inputs.end(), list.begin(), list.end());
  inputs.insert(inputs.end(), options.masters.begin(), options.masters.end());
  for (const NDArray& behind : {options.numbers, options.guard}) {
    if (behind.defined())
      inputs.push_back(behind);
  }
  return inputs;
}

}  // namespace

template <class Rule>
void optimizer_update(
    const Rule& rule, Handles weights, Handles grads, Lists states, const UpdateOptions& options, SourceLocation site) {
  detail::located(site, [&] {
    const Operator& op = operator_of(rule);
    detail::check_count(op.name, "gradients", grads.size(), weights.size());
    const std::vector<std::string> names = rule.states();
    require<ValueError>(states.size() == names.size(), [&] {
      return message(op.name, ": ", states.size(), " lists of states, the rule keeps ", names.size());
    });
    for (std::size_t i = 0; i < names.size(); ++i)
      detail::check_count(op.name, ("states '" + names[i] + "'").c_str(), states[i].size(), weights.size());
    const std::vector<NDArray> inputs = inputs_of(weights, grads, states, options);
    if (!weights.empty())
      invoke(op, inputs, Attributes::of(detail::RuleAttributes<Rule>(rule, options)), site);
  });
}

template <class Rule>
std::vector<double> update_numbers(const Rule& rule, const UpdateOptions& options, std::size_t parameters) {
  UpdateOptions here = options;
  here.numbers = {};  // numbers of the step are asked for
  const detail::RuleAttributes<Rule> a(rule, here);
  a.check(operator_of(rule).name, parameters, false);
  std::vector<double> numbers;
  numbers.reserve(parameters * detail::k_rates_of<Rule> + 1);
  for (const detail::Rates<double>& rates : a.rates(parameters, false))
    numbers.insert(numbers.end(), rates.at, rates.at + detail::k_rates_of<Rule>);
  numbers.push_back(a.rescale_grad);
  return numbers;
}

#define SLUICE_UPDATE_RULE(Rule, name)                                                           \
  template SLUICE_API void optimizer_update(                                                     \
      const update_rules::Rule&, Handles, Handles, Lists, const UpdateOptions&, SourceLocation); \
  template SLUICE_API std::vector<double> update_numbers(const update_rules::Rule&, const UpdateOptions&, std::size_t);
SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE

std::vector<double> update_numbers(const SgdUpdate& options, std::size_t parameters) {
  return update_numbers(update_rules::Sgd{options.momentum, options.momentum != 0}, options_of(options), parameters);
}

std::vector<double> update_numbers(const AdamUpdate& options) {
  const update_rules::Adam rule{options.beta1, options.beta2, options.epsilon};
  return update_numbers(rule, adam_options(options), options.steps.size());
}

void sgd_update(Handles weights, Handles grads, Handles momenta, const SgdUpdate& options, SourceLocation site) {
  detail::located(site, [&] {
    constexpr const char* op = "sgd_update";
    detail::check_count(op, "gradients", grads.size(), weights.size());
    const bool has_momenta = !momenta.empty() || (options.momentum != 0 && !weights.empty());
    if (has_momenta)
      detail::check_count(op, "momenta", momenta.size(), weights.size());
    const std::vector<NDArray> states[] = {list_of(momenta)};
    optimizer_update(
        update_rules::Sgd{options.momentum, has_momenta},
        weights,
        grads,
        Lists(states).first(has_momenta ? 1 : 0),
        options_of(options),
        site);
  });
}

void adam_update(
    Handles weights, Handles grads, Handles means, Handles variances, const AdamUpdate& options, SourceLocation site) {
  detail::located(site, [&] {
    constexpr const char* op = "adam_update";
    detail::check_count(op, "gradients", grads.size(), weights.size());
    detail::check_count(op, "means", means.size(), weights.size());
    detail::check_count(op, "variances", variances.size(), weights.size());
    const std::vector<NDArray> states[] = {list_of(means), list_of(variances)};
    optimizer_update(
        update_rules::Adam{options.beta1, options.beta2, options.epsilon},
        weights,
        grads,
        states,
        adam_options(options),
        site);
  });
}

}  // namespace sluice
