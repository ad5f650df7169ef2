#include <sluice/gluon/detail/optimizer_options.h>
#include <sluice/gluon/large_batch_optimizers.h>

namespace sluice::gluon::optimizer {

namespace {

namespace rules = update_rules;
using detail::k_any;
using detail::require_betas;
using detail::require_number;
using detail::require_range;

constexpr double k_most_epochs = 1e9;  // products of two can be counted on from

rules::Lbsgd lbsgd_rule(const LBSGDOptions& options) {
  require_range("LBSGD", "momentum", options.momentum, 0, 1);
  require_range("LBSGD", "batch_scale", static_cast<double>(options.batch_scale), 1, k_most_epochs);
  require_range("LBSGD", "updates_per_epoch", static_cast<double>(options.updates_per_epoch), 1, k_most_epochs);
  require_range("LBSGD", "warmup_epochs", static_cast<double>(options.warmup_epochs), 0, k_most_epochs);
  require_range("LBSGD", "begin_epoch", static_cast<double>(options.begin_epoch), 0, k_most_epochs);
  const LargeBatchWarmup strategy = options.warmup_strategy;
  return {
      .momentum = options.momentum,
      .batch_scale = options.batch_scale,
      .warmup_updates = options.warmup_epochs * options.updates_per_epoch,
      .begin_updates = options.begin_epoch * options.updates_per_epoch,
      .warmup_power = strategy == LargeBatchWarmup::power2 ? 2
                      : strategy == LargeBatchWarmup::sqrt ? 0.5
                                                           : 1,
      .lars = strategy == LargeBatchWarmup::lars};
}

}  // namespace

LARS::LARS(LARSOptions options)
    : RuleOptimizer(options, rules::Lars{options.momentum, options.eta, options.epsilon, {}}) {
  require_range("LARS", "momentum", options.momentum, 0, 1);
  require_range("LARS", "eta", options.eta, 0, k_any);
  require_range("LARS", "epsilon", options.epsilon, 0, k_any);
  check();
}

rules::Lars LARS::rule_of(const Step& step) const {
  rules::Lars rule = RuleOptimizer::rule_of(step);
  for (const auto& [name, parameter] : step.parameters)
    rule.plain.push_back(name.ends_with("gamma") || name.ends_with("beta") || name.ends_with("bias") ? 1 : 0);
  return rule;
}

LAMB::LAMB(LAMBOptions options)
    : RuleOptimizer(
          options,
          rules::Lamb{
              options.beta1,
              options.beta2,
              options.epsilon,
              options.lower_bound,
              options.upper_bound,
              options.bias_correction}) {
  require_betas("LAMB", options.beta1, options.beta2, options.epsilon);
  require_number("LAMB", "lower_bound", options.lower_bound);
  require_number("LAMB", "upper_bound", options.upper_bound);
  check();
}

LANS::LANS(LANSOptions options)
    : RuleOptimizer(
          options,
          rules::Lans{options.beta1, options.beta2, options.epsilon, options.lower_bound, options.upper_bound}) {
  require_betas("LANS", options.beta1, options.beta2, options.epsilon);
  require_number("LANS", "lower_bound", options.lower_bound);
  require_number("LANS", "upper_bound", options.upper_bound);
  check();
}

LBSGD::LBSGD(LBSGDOptions options) : RuleOptimizer(options, lbsgd_rule(options)) {
  check();
}

}  // namespace sluice::gluon::optimizer
