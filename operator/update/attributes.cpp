#include <cmath>

#include <sluice/ndarray/create.h>
#include <sluice/operator/update/attributes.h>

namespace sluice {
namespace detail {

namespace {

double factor(const std::vector<double>& multipliers, std::size_t i) {
  return multipliers.empty() ? 1 : multipliers[i];
}

}  // namespace

void check_count(const char* op, const char* what, std::size_t count, std::size_t weights) {
  require<ValueError>(
      count == weights, [&] { return message(op, ": ", count, " ", what, " for ", weights, " weights"); });
}

void UpdateAttributes::check(const char* op, std::size_t count, bool) const {
  for (const auto* multipliers : {&learning_rate_multipliers, &weight_decay_multipliers}) {
    if (!multipliers->empty())
      check_count(op, "multipliers", multipliers->size(), count);
  }
}

std::vector<double> UpdateAttributes::decays(std::size_t count) const {
  std::vector<double> made;
  for (std::size_t i = 0; i < count; ++i)
    made.push_back(weight_decay * factor(weight_decay_multipliers, i));
  return made;
}

void SgdAttributes::check(const char* op, std::size_t count, bool numbers) const {
  UpdateAttributes::check(op, count, numbers);
  if (momentum != 0 && !momenta)
    check_count(op, "momenta", 0, count);
}

UpdateRule<double> SgdAttributes::rule() const noexcept {
  return {.beta1 = momentum, .rescale = rescale_grad, .clip = clip_gradient};
}

std::vector<double> SgdAttributes::rates(std::size_t count) const {
  std::vector<double> made;
  for (std::size_t i = 0; i < count; ++i)
    made.push_back(learning_rate * factor(learning_rate_multipliers, i));
  return made;
}

void AdamAttributes::check(const char* op, std::size_t count, bool numbers) const {
  UpdateAttributes::check(op, count, numbers);
  if (numbers)
    return;
  check_count(op, "steps", steps.size(), count);
  for (const std::int64_t step : steps)
    require<ValueError>(step >= 1, [&] { return message(op, ": step ", step, " is not counted from 1"); });
}

UpdateRule<double> AdamAttributes::rule() const noexcept {
  return {
      .adam = true, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .rescale = rescale_grad, .clip = clip_gradient};
}

std::vector<double> AdamAttributes::rates(std::size_t count) const {
  std::vector<double> made;
  std::int64_t last = 0;
  double corrected = 0;  // of step `last`: most parameters are at the same
  for (std::size_t i = 0; i < count; ++i) {
    if (steps[i] != last) {
      last = steps[i];
      const auto t = static_cast<double>(last);
      corrected = learning_rate * (std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)));
    }
    made.push_back(corrected * factor(learning_rate_multipliers, i));
  }
  return made;
}

namespace {

std::vector<double> numbers_of(std::vector<double> rates, double rescale) {
  rates.push_back(rescale);
  return rates;
}

// Options that bring an array of numbers keep those of the step to themselves.
template <class Options>
Options without_numbers(Options options) {
  options.numbers = {};
  return options;
}

}  // namespace
}  // namespace detail

std::vector<double> update_numbers(const SgdUpdate& options, std::size_t parameters) {
  const detail::SgdAttributes a(detail::without_numbers(options), options.momentum != 0);
  a.check("sgd_update", parameters, false);
  return detail::numbers_of(a.rates(parameters), a.rescale_grad);
}

std::vector<double> update_numbers(const AdamUpdate& options) {
  const detail::AdamAttributes a(detail::without_numbers(options));
  a.check("adam_update", a.steps.size(), false);
  return detail::numbers_of(a.rates(a.steps.size()), a.rescale_grad);
}

}  // namespace sluice
