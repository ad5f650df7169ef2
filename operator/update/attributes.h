#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <sluice/operator/attributes.h>
#include <sluice/operator/update/every_rule.h>
#include <sluice/operator/update/rules.h>
#include <sluice/operator/update/work.h>

// The settings of one step as attributes of its operator.
namespace sluice::detail {

/// What all steps have in common. Numbers of the step (learning rates, rescale_grad, steps) count where the call brings
/// none.
struct UpdateAttributes {
  double learning_rate = 0;
  double weight_decay = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  std::vector<double> learning_rate_multipliers = {};
  std::vector<double> weight_decay_multipliers = {};
  std::int64_t masters = 0;  // arrays behind the lists
  bool guarded = false;      // the last input is a guard

  template <class V>
  void visit(V&& v) {
    v.field("learning_rate", learning_rate);
    v.field("weight_decay", weight_decay);
    v.field("rescale_grad", rescale_grad);
    v.field("clip_gradient", clip_gradient);
    v.field("learning_rate_multipliers", learning_rate_multipliers);
    v.field("weight_decay_multipliers", weight_decay_multipliers);
    v.field("masters", masters);
    v.field("guarded", guarded);
  }
};

/// How many numbers of a parameter's step a rule takes, and whether it counts steps.
template <class Rule>
inline constexpr int k_rates_of = 1;
template <>
inline constexpr int k_rates_of<update_rules::AdamW> = AdamWRule<float>::k_rates;
template <>
inline constexpr int k_rates_of<update_rules::Nadam> = NadamRule<float>::k_rates;
template <>
inline constexpr int k_rates_of<update_rules::Ftml> = FtmlRule<float>::k_rates;
template <>
inline constexpr int k_rates_of<update_rules::Sgld> = SgldRule<float>::k_rates;
template <>
inline constexpr int k_rates_of<update_rules::Lamb> = LambRule<float>::k_rates;
template <>
inline constexpr int k_rates_of<update_rules::Lans> = LansRule<float>::k_rates;
template <>
inline constexpr int k_rates_of<update_rules::Lbsgd> = LbsgdRule<float, false>::k_rates;
template <>
inline constexpr int k_rates_of<update_rules::Adafactor> = FactoredRule::k_rates;
template <class Rule>
inline constexpr bool k_counts_steps = requires(const Rule& rule) {
  rule.beta1;
}
|| std::is_same_v<Rule, update_rules::Adafactor> || std::is_same_v<Rule, update_rules::Lbsgd>;
/// Whether the last states of a rule are read alone: Sgld's noise.
template <class Rule>
inline constexpr bool k_only_reads_states = std::is_same_v<Rule, update_rules::Sgld>;

/// rule.states().size(), without the names: asked several times a step.
template <class Rule>
constexpr std::size_t count_states(const Rule& rule) noexcept {
  namespace rules = update_rules;
  constexpr auto is_one_of = []<class... R>(std::type_identity<R>...) { return (std::is_same_v<Rule, R> || ...); };
  if constexpr (std::is_same_v<Rule, rules::Sgd>)
    return rule.momenta ? 1 : 0;
  else if constexpr (is_one_of(std::type_identity<rules::Nag>(), std::type_identity<rules::Signum>()))
    return rule.momentum != 0 ? 1 : 0;
  else if constexpr (std::is_same_v<Rule, rules::RmsProp>)
    return rule.centered ? 3 : rule.momentum != 0 ? 2 : 1;
  else if constexpr (std::is_same_v<Rule, rules::Dcasgd>)
    return rule.momentum != 0 ? 2 : 1;
  else if constexpr (std::is_same_v<Rule, rules::Adafactor>)
    return rule.momentum != 0 ? 3 : 2;
  else if constexpr (is_one_of(
                         std::type_identity<rules::AdaGrad>(),
                         std::type_identity<rules::GroupAdaGrad>(),
                         std::type_identity<rules::Sgld>(),
                         std::type_identity<rules::Lars>()))
    return 1;
  else
    return std::is_same_v<Rule, rules::Ftml> ? 3 : 2;
}

template <class Rule>
struct RuleAttributes : UpdateAttributes {
  Rule rule = {};
  std::vector<std::int64_t> steps = {};  // not looked at where the call brings its numbers

  RuleAttributes() = default;
  /// Where the call brings the numbers of its step, they are no attributes: calls of all steps are the same then.
  RuleAttributes(const Rule& of, const UpdateOptions& o);

  template <class V>
  void visit(V&& v) {
    UpdateAttributes::visit(v);
    rule.visit(v);
    if constexpr (k_counts_steps<Rule>)
      v.field("steps", steps);
  }
  /// Lists of one array a weight.
  std::size_t lists() const { return 2 + count_states(rule); }
  /// Throws ValueError for what is not one a parameter, a step below 1, and a momentum without momenta. `numbers`: the
  /// call brings those of its step.
  void check(const char* op, std::size_t count, bool numbers) const;
  /// Of each parameter; without the call's numbers the rates too.
  std::vector<Rates<double>> rates(std::size_t count, bool numbers) const;
  AnyRule<float> rule32() const;
  AnyRule<double> rule64() const;
  /// What the rule says of single parameters, and beside rule32() and rule64().
  void tell_pieces(std::span<const NDArray> weights, UpdateWork& work) const;
};

/// Throws ValueError unless there is one of `what` a weight.
void check_count(const char* op, const char* what, std::size_t count, std::size_t weights);

/// What the inputs of a call of an update are; no lists where the operator is none.
struct UpdateInputs {
  std::size_t lists = 0;   // of one array a weight
  std::size_t behind = 0;  // of those behind the lists, all but numbers
};
UpdateInputs update_inputs(const Operator& op, const Attributes& attributes);

#define SLUICE_UPDATE_RULE(Rule, name) extern const Operator k_##name;
SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE
extern const Operator k_gradient_guard;

}  // namespace sluice::detail
