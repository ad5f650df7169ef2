#include <cmath>
#include <utility>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/update/attributes.h>
#include <sluice/operator/update/corrections.h>
#include <sluice/operator/update/kernel_rules.h>

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
Names AdaBelief::states() const {
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
Names GroupAdaGrad::states() const {
  return {"history"};
}
Shape GroupAdaGrad::state_shape(std::size_t /*i*/, const Shape& weight) const {
  Shape shape = weight;
  for (int axis = 1; axis < shape.ndim(); ++axis)
    shape[axis] = 1;
  return shape;
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
Names Lans::states() const {
  return {"mean", "variance"};
}
Names Lbsgd::states() const {
  return {"sum", "momentum"};
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

constexpr std::int64_t k_most_updates = std::int64_t{1} << 61;  // and steps can be counted on

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

// What the rate is multiplied by, and the sum of gradients; a late step is warm, and due.
Corrections corrections(const rules::Lbsgd& rule, std::int64_t step) {
  if (step == k_late_step)
    return {};
  const auto number = static_cast<std::uint64_t>(rule.begin_updates) + static_cast<std::uint64_t>(step);
  const auto scale = static_cast<double>(rule.batch_scale);
  const double part = warm_part(rule, static_cast<double>(number));
  const double rate = rule.lars ? 1 : 1 + (scale - 1) * std::pow(part, rule.warmup_power);
  return {rate, number % static_cast<std::uint64_t>(rule.batch_scale) == 0 ? 1 / scale : 0};
}

template <class Rule>
void write_rates(const Rule&, double rate, const Corrections&, double (&to)[k_most_rates]) {
  to[0] = rate;
}
void write_rates(const rules::AdaBelief& rule, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rule.correct_bias ? rate * (at.root / at.mean) : rate;
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
void write_rates(const rules::Lans&, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate;
  to[1] = 1 / at.mean;
  to[2] = 1 / at.root;
}
void write_rates(const rules::Lbsgd&, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate * at.mean;
  to[1] = at.root;
}
void write_rates(const rules::Adafactor&, double rate, const Corrections& at, double (&to)[k_most_rates]) {
  to[0] = rate;
  to[1] = at.mean;
  to[2] = at.root;
}

template <class Rule>
void tell(const Rule&, std::span<const NDArray>, UpdateWork&) {}
void tell(const rules::Lars& rule, std::span<const NDArray>, UpdateWork& work) {
  for (UpdatePiece& piece : work.pieces)
    piece.plain = !rule.plain.empty() && rule.plain[static_cast<std::size_t>(piece.number)] != 0;
}
void tell(const rules::GroupAdaGrad& rule, std::span<const NDArray> weights, UpdateWork& work) {
  work.grouped = {.epsilon = rule.epsilon};
  for (UpdatePiece& piece : work.pieces) {
    const Shape& shape = object_of(weights[static_cast<std::size_t>(piece.number)], "update").shape;
    piece.columns = shape.ndim() == 0 ? 1 : piece.size / shape[0];
  }
}
// Its mean of several gradients is cut, not each of them.
void tell(const rules::Lbsgd&, std::span<const NDArray>, UpdateWork& work) {
  const auto cut = [&]<class R>(R& rule) {
    if constexpr (requires { rule.clip; })
      rule.clip = static_cast<decltype(rule.clip)>(work.clip);
  };
  std::visit(cut, work.rule);
  std::visit(cut, work.rule64);
  work.clip = -1;
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
void check_rule(const rules::Lbsgd& rule, const char* op, std::size_t) {
  require<ValueError>(rule.batch_scale >= 1, [&] {
    return message(op, ": batch_scale is ", rule.batch_scale, ", it must be at least 1");
  });
  for (const std::int64_t updates : {rule.warmup_updates, rule.begin_updates}) {
    require<ValueError>(updates >= 0 && updates <= k_most_updates, [&] {
      return message(op, ": ", updates, " updates of warming up, or before the first; there can be none, or some");
    });
  }
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
