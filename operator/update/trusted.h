#pragma once

#include <cmath>

#include <sluice/operator/update/rule.h>

// Rules whose rate goes by the norms of a parameter's weight and of a direction or two (LARS, LAMB, LANS). They take
// two passes: the first takes directions() of each element, which may change states, and adds up squares; with the
// ratios() of the norms in rates.at[0] and rates.second the second goes the step(). Before both the gradient of a
// `k_normalized` rule is scaled to a norm of 1.
namespace sluice::detail {

/// Of what the first pass saw of one parameter.
template <int Directions>
struct SquareSums {
  double weight;
  double direction[Directions];

  SLUICE_HD SquareSums operator+(const SquareSums& other) const noexcept {
    SquareSums sums{weight + other.weight, {}};
    for (int d = 0; d < Directions; ++d)
      sums.direction[d] = direction[d] + other.direction[d];
    return sums;
  }
};

template <class R>
constexpr int directions_of() noexcept {
  if constexpr (requires { R::k_directions; })
    return R::k_directions;
  else
    return 0;
}

template <class R>
constexpr bool is_normalized() noexcept {
  if constexpr (requires { R::k_normalized; })
    return R::k_normalized;
  else
    return false;
}

/// How many states directions() reads: none where it changes none, but for a rule that says otherwise.
template <class R>
constexpr int direction_states() noexcept {
  if constexpr (requires { R::k_direction_states; })
    return R::k_direction_states;
  else
    return R::k_direction_changes ? R::k_states : 0;
}

template <class C>
struct LarsRule {
  static constexpr int k_states = 1, k_rates = 1, k_directions = 1;
  static constexpr bool k_trusted = true, k_direction_changes = false;
  MomentumRule<C> after;
  double eta = 0, epsilon = 0;

  SLUICE_HD void directions(C, C grad, C*, const Rates<C>&, C (&to)[1]) const noexcept { to[0] = grad; }
  SLUICE_HD void ratios(const SquareSums<1>& sums, double decay, double* to) const noexcept {
    const double weight = std::sqrt(sums.weight), grad = std::sqrt(sums.direction[0]);
    to[0] = weight > 0 && grad > 0 ? eta * weight / (grad + decay * weight + epsilon) : 1;
  }
  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    return after.step(weight, grad, state, rates);
  }
};

/// Bounds of a weight's norm; negative ones are none.
struct NormBounds {
  double lower = -1, upper = -1;

  /// The norm, cut, over that of a direction; 1 where one is 0.
  SLUICE_HD double ratio(double weight_squares, double direction_squares) const noexcept {
    const double direction = std::sqrt(direction_squares);
    double weight = std::sqrt(weight_squares);
    if (lower >= 0 && weight < lower)
      weight = lower;
    if (upper >= 0 && weight > upper)
      weight = upper;
    return weight > 0 && direction > 0 ? weight / direction : 1;
  }
};

/// Rates: the learning rate, what corrects mean over root, and epsilon beside the uncorrected root.
template <class C>
struct LambRule {
  static constexpr int k_states = 2, k_rates = 3, k_directions = 1;
  static constexpr bool k_trusted = true, k_direction_changes = true;
  GradientMoments<C> moments;
  NormBounds bounds;

  SLUICE_HD void directions(C weight, C grad, C* state, const Rates<C>& rates, C (&to)[1]) const noexcept {
    moments.take(grad, state);
    to[0] = direction_of(weight, state, rates);
  }
  SLUICE_HD void ratios(const SquareSums<1>& sums, double, double* to) const noexcept {
    to[0] = bounds.ratio(sums.weight, sums.direction[0]);
  }
  SLUICE_HD C step(C weight, C, C* state, const Rates<C>& rates) const noexcept {
    return weight - rates.at[0] * direction_of(weight, state, rates);
  }

 private:
  SLUICE_HD static C direction_of(C weight, const C* state, const Rates<C>& rates) noexcept {
    return rates.at[1] * state[0] / (std::sqrt(state[1]) + rates.at[2]) + rates.decay * weight;
  }
};

/// Directions: of the mean, then of the gradient itself. Rates: the learning rate, and what corrects mean and root.
template <class C>
struct LansRule {
  static constexpr int k_states = 2, k_rates = 3, k_directions = 2;
  static constexpr bool k_trusted = true, k_direction_changes = true, k_normalized = true;
  GradientMoments<C> moments;
  C epsilon = 0;
  NormBounds bounds;

  SLUICE_HD void directions(C weight, C grad, C* state, const Rates<C>& rates, C (&to)[2]) const noexcept {
    moments.take(grad, state);
    both(weight, grad, state, rates, to);
  }
  SLUICE_HD void ratios(const SquareSums<2>& sums, double, double* to) const noexcept {
    to[0] = bounds.ratio(sums.weight, sums.direction[0]);
    to[1] = bounds.ratio(sums.weight, sums.direction[1]);
  }
  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    C along[2];
    both(weight, grad, state, rates, along);
    return weight - (moments.beta1.keep * rates.at[0] * along[0] + moments.beta1.rest * rates.second * along[1]);
  }

 private:
  SLUICE_HD void both(C weight, C grad, const C* state, const Rates<C>& rates, C (&to)[2]) const noexcept {
    const C root = std::sqrt(state[1]) * rates.at[2] + epsilon, decayed = rates.decay * weight;
    to[0] = rates.at[1] * state[0] / root + decayed;
    to[1] = grad / root + decayed;
  }
};

/// States: the sum of gradients so far, then momentum. Rates: the learning rate, warmed up, and what the sum is
/// multiplied by in a step that is due, 0 in one that only adds to it. The mean is what is cut, not each gradient.
template <class C, bool Lars>
struct LbsgdRule {
  static constexpr int k_states = 2, k_rates = 2, k_directions = 1, k_direction_states = 1;
  static constexpr bool k_trusted = Lars, k_direction_changes = false;
  C momentum = 0, clip = -1;

  SLUICE_HD void directions(C, C grad, C* state, const Rates<C>& rates, C (&to)[1]) const noexcept {
    to[0] = mean_of(state[0] + grad, rates);
  }
  SLUICE_HD void ratios(const SquareSums<1>& sums, double decay, double* to) const noexcept {
    const double ratio = std::sqrt(sums.weight / (sums.direction[0] + decay * sums.weight + 1e-18));
    to[0] = ratio < 0.01 ? 0.01 : ratio > 100 ? 100 : ratio;
  }
  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C sum = state[0] + grad;
    const bool is_due = rates.at[1] != C{0};
    const C moved = momentum * state[1] - rates.at[0] * (mean_of(sum, rates) + rates.decay * weight);
    state[0] = is_due ? C{0} : sum;
    state[1] = is_due ? moved : state[1];
    return is_due ? weight + moved : weight;
  }

 private:
  SLUICE_HD C mean_of(C sum, const Rates<C>& rates) const noexcept {
    return GradientForm<C>{rates.at[1], clip}.of(sum);
  }
};

}  // namespace sluice::detail
