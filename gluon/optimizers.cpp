#include <algorithm>
#include <cmath>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/engine/region.h>
#include <sluice/gluon/detail/optimizer_options.h>
#include <sluice/gluon/optimizers.h>
#include <sluice/operator/random/random.h>
#include <sluice/operator/update/corrections.h>
#include <sluice/operator/update/every_rule.h>

namespace sluice::gluon::optimizer {

namespace {

namespace rules = update_rules;
using detail::k_any;
using detail::k_below_one;
using detail::require_betas;
using detail::require_number;
using detail::require_range;

// States without which an optimizer that had none goes on.
template <class Rule>
bool begins_without(const Rule&) {
  return false;
}
bool begins_without(const rules::Sgd&) {
  return true;
}
bool begins_without(const rules::Nag&) {
  return true;
}
bool begins_without(const rules::Signum&) {
  return true;
}

// With all states that the rule may keep.
template <class Rule>
Rule fullest(Rule rule) {
  return rule;
}
template <>
rules::Sgd fullest(rules::Sgd rule) {
  rule.momenta = true;
  return rule;
}
template <>
rules::Nag fullest(rules::Nag rule) {
  rule.momentum = 1;
  return rule;
}
template <>
rules::Signum fullest(rules::Signum rule) {
  rule.momentum = 1;
  return rule;
}
template <>
rules::Dcasgd fullest(rules::Dcasgd rule) {
  rule.momentum = 1;
  return rule;
}
template <>
rules::Adafactor fullest(rules::Adafactor rule) {
  rule.momentum = 1;
  return rule;
}
template <>
rules::RmsProp fullest(rules::RmsProp rule) {
  rule.centered = true;
  return rule;
}

}  // namespace

template <class Rule>
void RuleOptimizer<Rule>::check() const {
  require_range(name(), "wd", wd_, 0, k_any);
  require_number(name(), "clip_gradient", clip_gradient_);
}

template <class Rule>
UpdateOptions RuleOptimizer<Rule>::options_of(const Step& step) const {
  return {
      .learning_rate = learning_rate(),
      .weight_decay = wd_,
      .rescale_grad = step.rescale_grad,
      .clip_gradient = clip_gradient_,
      .steps = step.numbers,
      .learning_rate_multipliers = step.learning_rate_multipliers,
      .weight_decay_multipliers = step.weight_decay_multipliers,
      .numbers = step.in_memory,
      .masters = {},
      .guard = step.guard};
}

template <class Rule>
void RuleOptimizer<Rule>::apply(const Step& step) {
  const Rule rule = rule_of(step);
  std::vector<std::vector<NDArray>> states;
  for (const std::string& slot : rule.states())
    states.push_back(list_of(step, slot));
  UpdateOptions options = options_of(step);
  if (multi_precision_)
    options.masters = masters(step);
  optimizer_update(rule, step.weights, step.grads, states, options, step.site);
}

template <class Rule>
std::vector<double> RuleOptimizer<Rule>::numbers_of(const Step& step) const {
  return update_numbers(rule_of(step), options_of(step), step.weights.size());
}

template <class Rule>
bool RuleOptimizer<Rule>::counts_steps() const {
  return corrects_steps(rule_);
}

template <class Rule>
NDArray RuleOptimizer<Rule>::corrections(const NDArray& steps, SourceLocation site) const {
  return step_corrections(rule_, steps, site);
}

template <class Rule>
std::vector<std::string> RuleOptimizer<Rule>::slots() const {
  return fullest(rule_).states();
}

template <class Rule>
Shape RuleOptimizer<Rule>::state_shape(const std::string& slot, const Shape& parameter) const {
  const std::vector<std::string> all = slots();
  const auto at = std::find(all.begin(), all.end(), slot);
  // "master" is none of the rule's.
  return at == all.end() ? parameter : rules::state_shape(rule_, static_cast<std::size_t>(at - all.begin()), parameter);
}

template <class Rule>
std::vector<std::string> RuleOptimizer<Rule>::needed_slots(bool any) const {
  return any || !begins_without(rule_) ? rule_.states() : std::vector<std::string>();
}

#define SLUICE_UPDATE_RULE(Rule, name) template class RuleOptimizer<rules::Rule>;
SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE

SGD::SGD(SGDOptions options) : RuleOptimizer(options, rules::Sgd{options.momentum, options.momentum != 0}) {
  require_range("SGD", "momentum", options.momentum, 0, 1);
  check();
}

NAG::NAG(NAGOptions options) : RuleOptimizer(options, rules::Nag{options.momentum}) {
  require_range("NAG", "momentum", options.momentum, 0, 1);
  check();
}

Adam::Adam(AdamOptions options) : RuleOptimizer(options, rules::Adam{options.beta1, options.beta2, options.epsilon}) {
  require_betas("Adam", options.beta1, options.beta2, options.epsilon);
  check();
}

AdamW::AdamW(AdamWOptions options)
    : RuleOptimizer(options, rules::AdamW{options.beta1, options.beta2, options.epsilon}) {
  require_betas("AdamW", options.beta1, options.beta2, options.epsilon);
  check();
}

AdaBelief::AdaBelief(AdaBeliefOptions options)
    : RuleOptimizer(options, rules::AdaBelief{options.beta1, options.beta2, options.epsilon, options.correct_bias}) {
  require_betas("AdaBelief", options.beta1, options.beta2, options.epsilon);
  check();
}

Adamax::Adamax(AdamaxOptions options) : RuleOptimizer(options, rules::Adamax{options.beta1, options.beta2}) {
  require_betas("Adamax", options.beta1, options.beta2, 0);
  check();
}

Nadam::Nadam(NadamOptions options)
    : RuleOptimizer(options, rules::Nadam{options.beta1, options.beta2, options.epsilon, options.schedule_decay}) {
  require_betas("Nadam", options.beta1, options.beta2, options.epsilon);
  require_range("Nadam", "schedule_decay", options.schedule_decay, 0, k_any);
  check();
}

RMSProp::RMSProp(RMSPropOptions options)
    : RuleOptimizer(options, rules::RmsProp{options.rho, options.epsilon, options.momentum, options.centered}) {
  require_range("RMSProp", "rho", options.rho, 0, k_below_one);
  require_range("RMSProp", "momentum", options.momentum, 0, 1);
  require_range("RMSProp", "epsilon", options.epsilon, 0, k_any);
  check();
}

AdaGrad::AdaGrad(AdaGradOptions options) : RuleOptimizer(options, rules::AdaGrad{options.epsilon}) {
  require_range("AdaGrad", "epsilon", options.epsilon, 0, k_any);
  check();
}

GroupAdaGrad::GroupAdaGrad(GroupAdaGradOptions options) : RuleOptimizer(options, rules::GroupAdaGrad{options.epsilon}) {
  require_range("GroupAdaGrad", "epsilon", options.epsilon, 0, k_any);
  check();
}

AdaDelta::AdaDelta(AdaDeltaOptions options) : RuleOptimizer(options, rules::AdaDelta{options.rho, options.epsilon}) {
  require_range("AdaDelta", "rho", options.rho, 0, k_below_one);
  require_range("AdaDelta", "epsilon", options.epsilon, 0, k_any);
  check();
}

Ftrl::Ftrl(FtrlOptions options) : RuleOptimizer(options, rules::Ftrl{options.lamda1, options.beta}) {
  require_range("Ftrl", "lamda1", options.lamda1, 0, k_any);
  require_range("Ftrl", "beta", options.beta, 0, k_any);
  check();
}

FTML::FTML(FTMLOptions options) : RuleOptimizer(options, rules::Ftml{options.beta1, options.beta2, options.epsilon}) {
  require_betas("FTML", options.beta1, options.beta2, options.epsilon);
  check();
}

SGLD::SGLD(SGLDOptions options) : RuleOptimizer(options, rules::Sgld{}) {
  check();
}

std::vector<NDArray> SGLD::list_of(const Step& step, const std::string& /*slot*/) {
  require<UnsupportedError>(!region_records(), [this] {
    return name() + ": a region would repeat the noise of this step; a TrainStep draws anew each time";
  });
  std::vector<NDArray> noise(step.weights.size());
  for (const DType dtype : {float32, float64}) {
    // Each parameter's begins where vectors do.
    std::vector<std::int64_t> starts;
    std::int64_t total = 0;
    for (const NDArray& weight : step.weights) {
      starts.push_back(total);
      total += state_type(weight.dtype()) == dtype ? (weight.size() + 3) / 4 * 4 : 0;
    }
    const ArrayOptions there{.dtype = dtype, .device = step.weights[0].device()};
    const NDArray all = total > 0 ? random::normal({total}, there, step.site) : zeros({0}, there, step.site);
    for (std::size_t i = 0; i < noise.size(); ++i) {
      const NDArray& weight = step.weights[i];
      if (state_type(weight.dtype()) == dtype)
        noise[i] = all.slice(0, starts[i], starts[i] + weight.size(), 1, step.site).reshape(weight.shape(), step.site);
    }
  }
  return noise;
}

DCASGD::DCASGD(DCASGDOptions options) : RuleOptimizer(options, rules::Dcasgd{options.momentum, options.lamda}) {
  require_range("DCASGD", "momentum", options.momentum, 0, 1);
  require_range("DCASGD", "lamda", options.lamda, 0, k_any);
  check();
}

Signum::Signum(SignumOptions options) : RuleOptimizer(options, rules::Signum{options.momentum, options.wd_lh}) {
  require_range("Signum", "momentum", options.momentum, 0, k_below_one);
  require_range("Signum", "wd_lh", options.wd_lh, 0, k_any);
  check();
}

Adafactor::Adafactor(AdafactorOptions options)
    : RuleOptimizer(
          options,
          rules::Adafactor{
              .beta2_decay = options.beta2_decay,
              .epsilon1 = options.epsilon1,
              .epsilon2 = options.epsilon2,
              .clip_threshold = options.clip_threshold,
              .momentum = options.momentum,
              .relative_step = options.relative_step,
              .scale_parameter = options.scale_parameter}) {
  require_range("Adafactor", "beta2_decay", options.beta2_decay, -k_any, 0);
  require_number("Adafactor", "epsilon1", options.epsilon1);
  require_range("Adafactor", "epsilon2", options.epsilon2, 0, k_any);
  require_range("Adafactor", "clip_threshold", options.clip_threshold, std::numeric_limits<double>::min(), k_any);
  require_range("Adafactor", "momentum", options.momentum, 0, k_below_one);
  check();
}

}  // namespace sluice::gluon::optimizer
