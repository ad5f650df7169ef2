#pragma once

#include <cmath>

#include <sluice/ndarray/half.h>

// What the rules of optimizers have in common as the kernels see them. One arithmetic for CPU and GPU, of sums,
// products, quotients and roots alone.
namespace sluice::detail {

inline constexpr int k_most_states = 3, k_most_rates = 3;

/// What a step is told of one parameter.
template <class C>
struct Rates {
  C at[k_most_rates] = {};  // learning rate and what else changes from step to step, as the rule says
  C second = 0;             // of a rule with two directions: the learning rate of the other one
  C decay = 0;
};

/// What becomes of a gradient before any rule sees it.
template <class C>
struct GradientForm {
  C rescale = 1;
  C clip = -1;

  SLUICE_HD C of(C grad) const noexcept {
    const C g = grad * rescale;
    return clip < C{0} ? g : g > clip ? clip : g < -clip ? -clip : g;
  }
};

/// What gradients of that norm are multiplied by for it to be 1, with the sign of `rescale`; of no length they stay.
/// `most`: the largest number of the type that computes.
SLUICE_HD inline double rescale_to_one(double rescale, double norm, double most) noexcept {
  const double length = (rescale < 0 ? -rescale : rescale) * norm, factor = rescale / length;
  return length == 0 ? rescale : factor > most ? most : factor < -most ? -most : factor;  // of nan nan
}

/// Beta and 1 - beta, the latter from the number as it was given: 1 - 0.999f has lost half its digits.
template <class C>
struct Beta {
  C keep = 0;
  C rest = 1;

  Beta() = default;
  explicit Beta(double beta) : keep(static_cast<C>(beta)), rest(static_cast<C>(1 - beta)) {}
  SLUICE_HD C mix(C old, C fresh) const noexcept { return keep * old + rest * fresh; }
};

}  // namespace sluice::detail
