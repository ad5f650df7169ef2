#include <cmath>
#include <utility>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/update/attributes.h>
#include <sluice/operator/update/corrections.h>

namespace sluice {

namespace update_rules {

namespace {
using Names = std::vector<std::string>;
}

Names Sgd::states() const {
  return momenta ? Names{"momentum"} : Names{};
}
Names Nag::states() const {
  return momentum != 0 ? Names{"momentum"} : Names{};
}
Names Adam::states() const {
  return {"mean", "variance"};
}
Names AdamW::states() const {
  return {"mean", "variance"};
}
Names Adamax::states() const {
  return {"mean", "norm"};
}
Names Nadam::states() const {
  return {"mean", "variance"};
}
Names RmsProp::states() const {
  return centered        ? Names{"variance", "momentum", "mean"}
         : momentum != 0 ? Names{"variance", "momentum"}
                         : Names{"variance"};
}
Names AdaGrad::states() const {
  return {"history"};
}
Names AdaDelta::states() const {
  return {"history", "delta"};
}
Names Ftrl::states() const {
  return {"z", "n"};
}
Names Ftml::states() const {
  return {"d", "v", "z"};
}
Names Sgld::states() const {
  return {"noise"};
}
Names Dcasgd::states() const {
  return momentum != 0 ? Names{"previous", "momentum"} : Names{"previous"};
}
Names Signum::states() const {
  return momentum != 0 ? Names{"momentum"} : Names{};
}
Names Lars::states() const {
  return {"momentum"};
}
Names Lamb::states() const {
  return {"mean", "variance"};
}
Names Adafactor::states() const {
  return momentum != 0 ? Names{"variance", "column_variance", "momentum"} : Names{"variance", "column_variance"};
}
Shape Adafactor::state_shape(std::size_t i, const Shape& weight) const {
  const int axes = weight.ndim();
  if (i >= 2 || (axes < 2 && i == 0))
    return weight;
  if (axes < 2)
    return {0};
  Shape shape = weight;
  shape.erase(i == 0 ? axes - 1 : axes - 2);
  return shape;
}

}  // namespace update_rules

namespace detail {

namespace {

namespace rules = update_rules;

double factor(const std::vector<double>& multipliers, std::size_t i) {
  return multipliers.empty() ? 1 : multipliers[i];
}

// Of step t: what the mean is divided by, and the root of the variance.
struct Corrections {
  double mean = 1;
  double root = 1;
  double grad = 1;
};

template <class Rule>
Corrections corrections(const Rule& rule, std::int64_t step) {
  const auto t = static_cast<double>(step);
  return {1 - std::pow(rule.beta1, t), std::sqrt(1 - std::pow(rule.beta2, t))};
}

Corrections corrections(const rules::Nadam& rule, std::int64_t step) {
  const NadamCorrections at = nadam_corrections(rule, step);
  return {at.mean, at.root, at.grad};
}

// b and the most that a relative step is; of a late step neither is corrected.
Corrections corrections(const rules::Adafactor& rule, std::int64_t step) {
  if (step == k_late_step)
    return {};
  const auto t = static_cast<double>(step);
  return {std::pow(t, rule.beta2_decay), std::pow(t, -0.5)};
}

template <class Rule>
void write_rates(const Rule&, double rate, const Corrections&, double (&to)[k_most_rates]) {
  to[0] = rate;
}
void write_rates(const rules::Adam&, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate * (at.root / at.mean);
}
void write_rates(const rules::AdamW& rule, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate;
  to[1] = rate * (at.root / at.mean);
  to[2] = rule.epsilon * at.root;
}
void write_rates(const rules::Adamax&, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate / at.mean;
}
void write_rates(const rules::Nadam& rule, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate * at.grad;
  to[1] = rate * at.mean;
  to[2] = rule.epsilon * at.root;
}
void write_rates(const rules::Ftml&, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate / at.mean;
  to[1] = 1 / at.root;
}
void write_rates(const rules::Sgld&, double rate, const Corrections&, double (&to)[k_most_rates]) {
  to[0] = rate / 2;
  to[1] = std::sqrt(rate);
}
void write_rates(const rules::Lamb& rule, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate;
  to[1] = rule.bias_correction ? at.root / at.mean : 1;
  to[2] = rule.bias_correction ? rule.epsilon * at.root : rule.epsilon;
}

void write_rates(const rules::Adafactor&, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate;
  to[1] = at.mean;
  to[2] = at.root;
}

// -- Rules as the kernels take them ------------------------------------------------------------------------------
template <class C>
AnyRule<C> kernel_rule(const rules::Sgd& r) {
  if (!r.momenta)
    return SgdRule<C>{};
  return MomentumRule<C>{static_cast<C>(r.momentum)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Nag& r) {
  if (r.momentum == 0)
    return SgdRule<C>{};
  return NagRule<C>{static_cast<C>(r.momentum)};
}
template <class C, class Rule>
GradientMoments<C> moments_of(const Rule& r) {
  return {Beta<C>(r.beta1), Beta<C>(r.beta2)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Adam& r) {
  return AdamRule<C>{moments_of<C>(r), static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::AdamW& r) {
  return AdamWRule<C>{moments_of<C>(r)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Adamax& r) {
  return AdamaxRule<C>{Beta<C>(r.beta1), static_cast<C>(r.beta2)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Nadam& r) {
  return NadamRule<C>{moments_of<C>(r)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Ftml& r) {
  return FtmlRule<C>{moments_of<C>(r), static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Sgld&) {
  return SgldRule<C>{};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Dcasgd& r) {
  const C momentum = static_cast<C>(r.momentum), lamda = static_cast<C>(r.lamda);
  if (r.momentum == 0)
    return DcasgdRule<C, false>{momentum, lamda};
  return DcasgdRule<C, true>{momentum, lamda};
}
template <class C>
AnyRule<C> kernel_rule(const rules::RmsProp& r) {
  const Beta<C> rho(r.rho);
  const C epsilon = static_cast<C>(r.epsilon), momentum = static_cast<C>(r.momentum);
  if (r.centered)
    return RmsPropRule<C, true, true>{rho, epsilon, momentum};
  if (r.momentum != 0)
    return RmsPropRule<C, true, false>{rho, epsilon, momentum};
  return RmsPropRule<C, false, false>{rho, epsilon};
}
template <class C>
AnyRule<C> kernel_rule(const rules::AdaGrad& r) {
  return AdaGradRule<C>{static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::AdaDelta& r) {
  return AdaDeltaRule<C>{Beta<C>(r.rho), static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Ftrl& r) {
  return FtrlRule<C>{static_cast<C>(r.lamda1), static_cast<C>(r.beta)};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Signum& r) {
  const C wd_lh = static_cast<C>(r.wd_lh);
  if (r.momentum == 0)
    return SignumRule<C, false>{{}, wd_lh};
  return SignumRule<C, true>{Beta<C>(r.momentum), wd_lh};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Lars& r) {
  return LarsRule<C>{{static_cast<C>(r.momentum)}, r.eta, r.epsilon};
}
template <class C>
AnyRule<C> kernel_rule(const rules::Lamb& r) {
  return LambRule<C>{moments_of<C>(r), r.lower_bound, r.upper_bound};
}

// UpdateWork::factored says it.
template <class C>
AnyRule<C> kernel_rule(const rules::Adafactor&) {
  return {};
}

template <class Rule>
void tell(const Rule&, std::span<const NDArray>, UpdateWork&) {}
void tell(const rules::Lars& rule, std::span<const NDArray>, UpdateWork& work) {
  for (UpdatePiece& piece : work.pieces)
    piece.plain = !rule.plain.empty() && rule.plain[static_cast<std::size_t>(piece.number)] != 0;
}
void tell(const rules::Adafactor& rule, std::span<const NDArray> weights, UpdateWork& work) {
  work.factored = {
      .epsilon1 = rule.epsilon1,
      .epsilon2 = rule.epsilon2,
      .clip_threshold = rule.clip_threshold,
      .momentum = rule.momentum,
      .relative_step = rule.relative_step,
      .scale_parameter = rule.scale_parameter};
  for (UpdatePiece& piece : work.pieces) {
    const Shape& shape = object_of(weights[static_cast<std::size_t>(piece.number)], "update").shape;
    const int axes = shape.ndim();
    piece.strips = axes < 2 ? Strips(piece.size) : Strips(piece.size, shape[axes - 2], shape[axes - 1]);
  }
}

template <class Rule>
void check_rule(const Rule&, const char*, std::size_t) {}
void check_rule(const rules::Sgd& rule, const char* op, std::size_t count) {
  if (rule.momentum != 0 && !rule.momenta)
    check_count(op, "momenta", 0, count);
}
void check_rule(const rules::Lars& rule, const char* op, std::size_t count) {
  if (!rule.plain.empty())
    check_count(op, "flags of plain parameters", rule.plain.size(), count);
}

}  // namespace

void check_count(const char* op, const char* what, std::size_t count, std::size_t weights) {
  require<ValueError>(
      count == weights, [&] { return message(op, ": ", count, " ", what, " for ", weights, " weights"); });
}

template <class Rule>
RuleAttributes<Rule>::RuleAttributes(const Rule& of, const UpdateOptions& o) : rule(of) {
  const bool numbers = o.numbers.defined();
  learning_rate = numbers ? 0 : o.learning_rate;
  weight_decay = o.weight_decay;
  rescale_grad = numbers ? 1 : o.rescale_grad;
  clip_gradient = o.clip_gradient;
  learning_rate_multipliers = o.learning_rate_multipliers;
  weight_decay_multipliers = o.weight_decay_multipliers;
  masters = static_cast<std::int64_t>(o.masters.size());
  guarded = o.guard.defined();
  if (k_counts_steps<Rule> && !numbers)
    steps = o.steps;
}

template <class Rule>
void RuleAttributes<Rule>::check(const char* op, std::size_t count, bool numbers) const {
  for (const auto* multipliers : {&learning_rate_multipliers, &weight_decay_multipliers}) {
    if (!multipliers->empty())
      check_count(op, "multipliers", multipliers->size(), count);
  }
  check_rule(rule, op, count);
  if (numbers || !k_counts_steps<Rule>)
    return;
  check_count(op, "steps", steps.size(), count);
  for (const std::int64_t step : steps)
    require<ValueError>(step >= 1, [&] { return message(op, ": step ", step, " is not counted from 1"); });
}

template <class Rule>
std::vector<Rates<double>> RuleAttributes<Rule>::rates(std::size_t count, bool numbers) const {
  std::vector<Rates<double>> made(count);
  std::int64_t last = 0;
  Corrections correction;  // of step `last`: most parameters are at the same
  for (std::size_t i = 0; i < count; ++i) {
    made[i].decay = weight_decay * factor(weight_decay_multipliers, i);
    if (numbers)
      continue;
    if constexpr (k_counts_steps<Rule>) {
      if (steps[i] != last)
        correction = corrections(rule, last = steps[i]);
    }
    write_rates(rule, learning_rate * factor(learning_rate_multipliers, i), correction, made[i].at);
  }
  return made;
}

template <class Rule>
AnyRule<float> RuleAttributes<Rule>::rule32() const {
  return kernel_rule<float>(rule);
}
template <class Rule>
AnyRule<double> RuleAttributes<Rule>::rule64() const {
  return kernel_rule<double>(rule);
}

template <class Rule>
void RuleAttributes<Rule>::tell_pieces(std::span<const NDArray> weights, UpdateWork& work) const {
  tell(rule, weights, work);
}

#define SLUICE_UPDATE_RULE(Rule, name) template struct RuleAttributes<rules::Rule>;
SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE

}  // namespace detail
}  // namespace sluice
