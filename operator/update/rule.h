#pragma once

#include <cmath>

#include <sluice/operator/update/rates.h>

// The rules of optimizers, a struct each, from which the loops of the CPU and the kernels of a GPU are made:
// `k_states` arrays beside each weight, `k_rates` numbers of each parameter's step, and step(), which gives the new
// weight and changes states in place. Their formulas stand in operator/update/rules.h. Those that go by the norms of
// a parameter: trusted.h.
namespace sluice::detail {

/// How many of a rule's states steps change: the first ones, all but for a rule that says otherwise.
template <class R>
constexpr int written_states() noexcept {
  if constexpr (requires { R::k_written; })
    return R::k_written;
  else
    return R::k_states;
}

template <class C>
struct SgdRule {
  static constexpr int k_states = 0, k_rates = 1;
  static constexpr bool k_trusted = false;

  SLUICE_HD C step(C weight, C grad, C*, const Rates<C>& rates) const noexcept {
    return weight - rates.at[0] * (grad + rates.decay * weight);
  }
};

template <class C>
struct MomentumRule {
  static constexpr int k_states = 1, k_rates = 1;
  static constexpr bool k_trusted = false;
  C momentum = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    state[0] = momentum * state[0] - rates.at[0] * (grad + rates.decay * weight);
    return weight + state[0];
  }
};

template <class C>
struct NagRule {
  static constexpr int k_states = 1, k_rates = 1;
  static constexpr bool k_trusted = false;
  C momentum = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C down = rates.at[0] * (grad + rates.decay * weight);
    state[0] = momentum * state[0] - down;
    return weight + (momentum * state[0] - down);
  }
};

/// Mean and variance of gradients.
template <class C>
struct GradientMoments {
  Beta<C> beta1, beta2;

  SLUICE_HD void take(C grad, C* state) const noexcept {
    state[0] = beta1.keep * state[0] + beta1.rest * grad;
    state[1] = beta2.keep * state[1] + beta2.rest * grad * grad;
  }
};

/// The rate: corrected for both moments.
template <class C>
struct AdamRule {
  static constexpr int k_states = 2, k_rates = 1;
  static constexpr bool k_trusted = false;
  GradientMoments<C> moments;
  C epsilon = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    moments.take(grad + rates.decay * weight, state);
    return weight - rates.at[0] * state[0] / (std::sqrt(state[1]) + epsilon);
  }
};

/// States: mean, then the variance about it. The rate: corrected for both.
template <class C>
struct AdaBeliefRule {
  static constexpr int k_states = 2, k_rates = 1;
  static constexpr bool k_trusted = false;
  Beta<C> beta1, beta2;
  C epsilon = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C g = grad + rates.decay * weight;
    state[0] = beta1.mix(state[0], g);
    const C away = g - state[0];
    state[1] = beta2.mix(state[1], away * away) + epsilon;
    return weight - rates.at[0] * state[0] / (std::sqrt(state[1]) + epsilon);
  }
};

/// Rates: the learning rate, the same corrected for both moments, and epsilon beside the uncorrected root.
template <class C>
struct AdamWRule {
  static constexpr int k_states = 2, k_rates = 3;
  static constexpr bool k_trusted = false;
  GradientMoments<C> moments;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    moments.take(grad, state);
    const C kept = weight - rates.at[0] * rates.decay * weight;
    return kept - rates.at[1] * state[0] / (std::sqrt(state[1]) + rates.at[2]);
  }
};

/// States: mean, then norm. The rate: corrected for the mean.
template <class C>
struct AdamaxRule {
  static constexpr int k_states = 2, k_rates = 1;
  static constexpr bool k_trusted = false;
  Beta<C> beta1;
  C beta2 = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C g = grad + rates.decay * weight, size = g < C{0} ? -g : g, kept = beta2 * state[1];
    state[0] = beta1.mix(state[0], g);
    state[1] = kept > size ? kept : size;  // of nan the nan
    const C divisor = state[1] == C{0} ? C{1} : state[1];
    const C moved = weight - rates.at[0] * state[0] / divisor;
    return state[1] == C{0} ? weight : moved;
  }
};

/// Rates: of the gradient and of the mean, each corrected for its momenta and for the root, and epsilon beside that.
template <class C>
struct NadamRule {
  static constexpr int k_states = 2, k_rates = 3;
  static constexpr bool k_trusted = false;
  GradientMoments<C> moments;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C g = grad + rates.decay * weight;
    moments.take(g, state);
    return weight - (rates.at[0] * g + rates.at[1] * state[0]) / (std::sqrt(state[1]) + rates.at[2]);
  }
};

/// States: variance, then momentum, then mean.
template <class C, bool Momentum, bool Centered>
struct RmsPropRule {
  static constexpr int k_states = 1 + (Momentum ? 1 : 0) + (Centered ? 1 : 0), k_rates = 1;
  static constexpr bool k_trusted = false;
  Beta<C> rho;
  C epsilon = 0, momentum = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C g = grad + rates.decay * weight;
    state[0] = rho.keep * state[0] + rho.rest * g * g;
    C variance = state[0];
    if constexpr (Centered) {
      state[2] = rho.keep * state[2] + rho.rest * g;
      variance -= state[2] * state[2];
      variance = variance < C{0} ? C{0} : variance;  // rounding, of gradients that are all the same
    }
    C direction = g / (std::sqrt(variance) + epsilon);
    if constexpr (Momentum) {
      state[1] = momentum * state[1] + direction;
      direction = state[1];
    }
    return weight - rates.at[0] * direction;
  }
};

template <class C>
struct AdaGradRule {
  static constexpr int k_states = 1, k_rates = 1;
  static constexpr bool k_trusted = false;
  C epsilon = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C g = grad + rates.decay * weight;
    state[0] += g * g;
    return weight - rates.at[0] * g / (std::sqrt(state[0]) + epsilon);
  }
};

template <class C>
struct AdaDeltaRule {
  static constexpr int k_states = 2, k_rates = 1;
  static constexpr bool k_trusted = false;
  Beta<C> rho;
  C epsilon = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C g = grad + rates.decay * weight;
    state[0] = rho.keep * state[0] + rho.rest * g * g;
    const C direction = std::sqrt(state[1] + epsilon) / std::sqrt(state[0] + epsilon) * g;
    state[1] = rho.keep * state[1] + rho.rest * direction * direction;
    return weight - rates.at[0] * direction;
  }
};

/// States: z, then n.
template <class C>
struct FtrlRule {
  static constexpr int k_states = 2, k_rates = 1;
  static constexpr bool k_trusted = false;
  C lamda1 = 0, beta = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C rate = rates.at[0];
    const bool still = rate == C{0};
    const C sum = state[1] + grad * grad, root = std::sqrt(sum);
    const C z = state[0] + grad - (root - std::sqrt(state[1])) / rate * weight;
    const C pull = z < C{0} ? -lamda1 - z : lamda1 - z;
    const bool dropped = z <= lamda1 && -z <= lamda1;  // not of nan
    const C moved = dropped ? C{0} : pull / ((beta + root) / rate + rates.decay);
    state[0] = still ? state[0] : z;
    state[1] = still ? state[1] : sum;
    return still ? weight : moved;
  }
};

/// States: d, v, then z. Rates: corrected for the mean, and by what the root of v is corrected.
template <class C>
struct FtmlRule {
  static constexpr int k_states = 3, k_rates = 2;
  static constexpr bool k_trusted = false;
  GradientMoments<C> moments;
  C epsilon = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const bool still = rates.at[0] == C{0};
    const C g = grad + rates.decay * weight;
    const C v = moments.beta2.mix(state[1], g * g);
    const C d = (std::sqrt(v) * rates.at[1] + epsilon) / (still ? C{1} : rates.at[0]);
    const C z = moments.beta1.mix(state[2], g) - (d - moments.beta1.keep * state[0]) * weight;
    state[0] = still ? state[0] : d;
    state[1] = still ? state[1] : v;
    state[2] = still ? state[2] : z;
    return still || d == C{0} ? weight : -z / d;
  }
};

/// The state is the noise, which is only read. Rates: half of the learning rate, and its root.
template <class C>
struct SgldRule {
  static constexpr int k_states = 1, k_written = 0, k_rates = 2;
  static constexpr bool k_trusted = false;

  SLUICE_HD C step(C weight, C grad, const C* state, const Rates<C>& rates) const noexcept {
    return weight - rates.at[0] * (grad + rates.decay * weight) + rates.at[1] * state[0];
  }
};

/// States: the weight before, then momentum.
template <class C, bool Momentum>
struct DcasgdRule {
  static constexpr int k_states = Momentum ? 2 : 1, k_rates = 1;
  static constexpr bool k_trusted = false;
  C momentum = 0, lamda = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C g = grad + rates.decay * weight + lamda * grad * grad * (weight - state[0]);
    C move = -rates.at[0] * g;
    if constexpr (Momentum) {
      move = momentum * state[1] + move;
      state[1] = move;
    }
    state[0] = weight;
    return weight + move;
  }
};

template <class C, bool Momentum>
struct SignumRule {
  static constexpr int k_states = Momentum ? 1 : 0, k_rates = 1;
  static constexpr bool k_trusted = false;
  Beta<C> momentum;
  C wd_lh = 0;

  SLUICE_HD C step(C weight, C grad, C* state, const Rates<C>& rates) const noexcept {
    const C g = grad + rates.decay * weight;
    C m = -g;
    if constexpr (Momentum) {
      m = momentum.keep * state[0] - momentum.rest * g;
      state[0] = m;
    }
    const C sign = m > C{0} ? C{1} : m < C{0} ? C{-1} : m;  // 0 and nan are their own
    return (C{1} - rates.at[0] * wd_lh) * weight + rates.at[0] * sign;
  }
};

}  // namespace sluice::detail
