#include <cmath>
#include <type_traits>

#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/update/attributes.h>
#include <sluice/operator/update/corrections.h>
#include <sluice/operator/update/every_rule.h>

namespace sluice {

namespace rules = update_rules;

namespace {

// A product of many momenta is the exponential of a sum of logarithms, log(1 - q^i / 2), whose series in q^i can be
// added up over all i at once; this many terms of it halve what is left 60 times.
constexpr int k_nadam_terms = 60;

// The logarithm of q.
double nadam_log(const rules::Nadam& rule) {
  return rule.schedule_decay * std::log(0.96);
}

// 1 - beta^t.
NDArray rest_of(double beta, const NDArray& steps, SourceLocation site) {
  return subtract(1, power(beta, steps, site), site);
}

// What corrects gradient, mean and root of Nadam, as nadam_corrections() has it.
NDArray nadam_corrections_at(const rules::Nadam& rule, const NDArray& steps, SourceLocation site) {
  const double log = nadam_log(rule);
  const NDArray column = steps.reshape({-1, 1}, site);
  const NDArray k = arange(1, k_nadam_terms + 1, 1, {.dtype = float64, .device = steps.device()}, site);
  const NDArray share =
      log == 0
          ? multiply(column, ones_like(k, site), site)
          : divide(
                expm1(multiply(multiply(column, k, site), log, site), site), expm1(multiply(k, log, site), site), site);
  const NDArray terms = divide(exp(multiply(k, log - std::log(2), site), site), k, site);
  const NDArray sums = sum(multiply(share, terms, site), {1}, false, site);
  const NDArray product = exp(subtract(multiply(steps, std::log(rule.beta1), site), sums, site), site);
  const auto momentum = [&](double late) {
    const NDArray warm = exp(multiply(add(steps, late, site), log, site), site);
    return multiply(subtract(1, multiply(warm, 0.5, site), site), rule.beta1, site);
  };
  const NDArray next = momentum(1), root = sqrt(rest_of(rule.beta2, steps, site), site);
  const NDArray fresh = divide(subtract(1, momentum(0), site), subtract(1, product, site), site);
  const NDArray mean = divide(next, subtract(1, multiply(product, next, site), site), site);
  return stack({multiply(fresh, root, site), multiply(mean, root, site), root}, 1, site).reshape({-1}, site);
}

// Lbsgd's rates, of a step that is warm and due.
NDArray lbsgd_corrections_at(const rules::Lbsgd& rule, const NDArray& steps, SourceLocation site) {
  const auto scale = static_cast<double>(rule.batch_scale);
  const NDArray numbers = add(steps, static_cast<double>(rule.begin_updates), site);
  const NDArray due = multiply(equal(mod(numbers, scale, site), 0, site).astype(float64, site), 1 / scale, site);
  if (rule.lars || rule.warmup_updates == 0)
    return stack({full_like(due, rule.lars ? 1 : scale, site), due}, 1, site).reshape({-1}, site);
  const NDArray part = minimum(divide(numbers, static_cast<double>(rule.warmup_updates), site), 1, site);
  const NDArray rate = add(multiply(power(part, rule.warmup_power, site), scale - 1, site), 1, site);
  return stack({rate, due}, 1, site).reshape({-1}, site);
}

}  // namespace

NadamCorrections nadam_corrections(const rules::Nadam& rule, std::int64_t step) {
  if (step == k_late_step)
    return {};
  const double t = static_cast<double>(step), log = nadam_log(rule);
  double sum = 0;
  for (int k = 1; k <= k_nadam_terms; ++k) {
    const double share = log == 0 ? t : std::expm1(k * t * log) / std::expm1(k * log);
    sum += share * std::exp(k * (log - std::log(2))) / k;
  }
  const double product = std::exp(t * std::log(rule.beta1) - sum);
  const double now = rule.beta1 * (1 - std::exp(t * log) / 2), next = rule.beta1 * (1 - std::exp((t + 1) * log) / 2);
  const double root = std::sqrt(1 - std::pow(rule.beta2, t));
  return {.grad = root * (1 - now) / (1 - product), .mean = root * next / (1 - product * next), .root = root};
}

template <class Rule>
bool corrects_steps([[maybe_unused]] const Rule& rule) noexcept {
  if constexpr (std::is_same_v<Rule, rules::Lamb>)
    return rule.bias_correction;
  else if constexpr (std::is_same_v<Rule, rules::AdaBelief>)
    return rule.correct_bias;
  else
    return detail::k_counts_steps<Rule>;
}

template <class Rule>
NDArray step_corrections(
    [[maybe_unused]] const Rule& rule, [[maybe_unused]] const NDArray& steps, [[maybe_unused]] SourceLocation site) {
  if constexpr (std::is_same_v<Rule, rules::Adafactor>) {
    const NDArray rest = power(steps, rule.beta2_decay, site);
    return stack({ones_like(rest, site), rest, power(steps, -0.5, site)}, 1, site).reshape({-1}, site);
  } else if constexpr (std::is_same_v<Rule, rules::Nadam>) {
    return nadam_corrections_at(rule, steps, site);
  } else if constexpr (std::is_same_v<Rule, rules::Lbsgd>) {
    return lbsgd_corrections_at(rule, steps, site);
  } else if constexpr (std::is_same_v<Rule, rules::Lans>) {
    const NDArray mean = divide(1, rest_of(rule.beta1, steps, site), site);
    const NDArray root = sqrt(divide(1, rest_of(rule.beta2, steps, site), site), site);
    return stack({ones_like(mean, site), mean, root}, 1, site).reshape({-1}, site);
  } else if constexpr (std::is_same_v<Rule, rules::Adamax>) {
    return divide(1, rest_of(rule.beta1, steps, site), site);
  } else if constexpr (std::is_same_v<Rule, rules::Ftml>) {
    const NDArray mean = divide(1, rest_of(rule.beta1, steps, site), site);
    const NDArray root = sqrt(divide(1, rest_of(rule.beta2, steps, site), site), site);
    return stack({mean, root}, 1, site).reshape({-1}, site);
  } else if constexpr (requires { rule.beta1; }) {
    if (!corrects_steps(rule))
      return {};
    const NDArray root = sqrt(rest_of(rule.beta2, steps, site), site);
    const NDArray rate = divide(root, rest_of(rule.beta1, steps, site), site);
    if constexpr (std::is_same_v<Rule, rules::Adam> || std::is_same_v<Rule, rules::AdaBelief>)
      return rate;
    else
      return stack({ones_like(rate, site), rate, root}, 1, site).reshape({-1}, site);
  } else {
    return {};
  }
}

#define SLUICE_UPDATE_RULE(Rule, name)                              \
  template bool corrects_steps(const update_rules::Rule&) noexcept; \
  template NDArray step_corrections(const update_rules::Rule&, const NDArray&, SourceLocation);
SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE

}  // namespace sluice
