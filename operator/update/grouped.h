#pragma once

#include <cmath>
#include <cstdint>

#include <sluice/operator/update/rates.h>

// GroupAdaGrad as the kernels see it: one state for all elements of a row, which are added up before any of them goes.
namespace sluice::detail {

struct GroupedRule {
  static constexpr int k_states = 0, k_rates = 1;  // no state an element
  double epsilon = 0;
};

/// The arithmetic of one parameter's step.
template <class C>
struct GroupedStep {
  C rate, decay, epsilon;
  GradientForm<C> form;

  SLUICE_HD GroupedStep(const GroupedRule& rule, const Rates<C>& rates, const GradientForm<C>& told)
      : rate(rates.at[0]), decay(rates.decay), epsilon(static_cast<C>(rule.epsilon)), form(told) {}
  SLUICE_HD C decayed(C weight, C grad) const noexcept { return form.of(grad) + decay * weight; }
  /// Of a row's old state and its squared gradients.
  SLUICE_HD C history(C old, double squares, std::int64_t columns) const noexcept {
    return old + static_cast<C>(squares / static_cast<double>(columns));
  }
  SLUICE_HD C step(C weight, C grad, C history) const noexcept {
    return weight - rate * decayed(weight, grad) / (std::sqrt(history) + epsilon);
  }
};

}  // namespace sluice::detail
