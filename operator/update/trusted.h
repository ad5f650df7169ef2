#pragma once

#include <cmath>

#include <sluice/operator/update/rule.h>

// Rules whose rate goes by the norms of a parameter's weight and of a direction (LARS, LAMB). They take two passes:
// the first takes direction() of each element, which may change states, and adds up squares; with the ratio() of the
// two norms in rates.at[0] the second goes the step().
namespace sluice::detail {

/// Of what the first pass saw of one parameter.
struct SquareSums {
  double weight;
  double direction;
};

template <class C>
struct LarsRule {
  static constexpr int k_states = 1, k_rates = 1;
  static constexpr bool k_trusted = true, k_direction_changes = false;
  MomentumRule<C> after;
  double eta = 0, epsilon = 0;

  SLUICE_HD C direction(C, C grad, C*, const Rates<C>&) const noexcept { return grad; }
  SLUICE_HD double ratio(const SquareSums& sums, double decay) const noexcept {
    const double weight = std::sqrt(sums.weight), grad = std::sqrt(sums.direction);
    return weight > 0 && grad > 0 ? eta * weight / (grad + decay * weight + epsilon) : 1;
  }
  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    return after.step(weight, grad, state, rates);
  }
};

/// Rates: the learning rate, what corrects mean over root, and epsilon beside the uncorrected root.
template <class C>
struct LambRule {
  static constexpr int k_states = 2, k_rates = 3;
  static constexpr bool k_trusted = true, k_direction_changes = true;
  GradientMoments<C> moments;
  double lower_bound = -1, upper_bound = -1;

  SLUICE_HD C direction(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    moments.take(grad, state);
    return direction_of(weight, state, rates);
  }
  SLUICE_HD double ratio(const SquareSums& sums, double) const noexcept {
    const double direction = std::sqrt(sums.direction);
    double weight = std::sqrt(sums.weight);
    if (lower_bound >= 0 && weight < lower_bound)
      weight = lower_bound;
    if (upper_bound >= 0 && weight > upper_bound)
      weight = upper_bound;
    return weight > 0 && direction > 0 ? weight / direction : 1;
  }
  SLUICE_HD C step(C weight, C, C* state, const Rates<C>& rates) const noexcept {
    return weight - rates.at[0] * direction_of(weight, state, rates);
  }

 private:
  SLUICE_HD static C direction_of(C weight, const C* state, const Rates<C>& rates) noexcept {
    return rates.at[1] * state[0] / (std::sqrt(state[1]) + rates.at[2]) + rates.decay * weight;
  }
};

}  // namespace sluice::detail
