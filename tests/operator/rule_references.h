#pragma once

// The rules of optimizers as their papers write them, in float64 and one element after the other: what steps are
// compared with.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include <sluice/operator/update/rules.h>

namespace sluice::test {

using Column = std::vector<double>;

/// One parameter as a reference sees it: gradients rescaled and cut, states that begin at 0.
struct Followed {
  Column w, g, a, b, c;
  double lr = 0, wd = 0, t = 1;
  bool plain = false;

  explicit Followed(const Column& weight) : w(weight), g(weight.size()), a(g), b(g), c(g) {}
  void each(const std::function<void(std::size_t)>& f) const {
    for (std::size_t i = 0; i < w.size(); ++i)
      f(i);
  }
  double decayed(std::size_t i) const { return g[i] + wd * w[i]; }
};

inline double norm_of(const Column& values) {
  double sum = 0;
  for (const double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

inline void follow(const update_rules::Sgd& r, Followed& p) {
  p.each([&](std::size_t i) {
    p.a[i] = r.momentum * p.a[i] - p.lr * p.decayed(i);
    p.w[i] += p.a[i];
  });
}
inline void follow(const update_rules::Nag& r, Followed& p) {
  p.each([&](std::size_t i) {
    const double g = p.decayed(i);
    p.a[i] = r.momentum * p.a[i] - p.lr * g;
    p.w[i] += r.momentum * p.a[i] - p.lr * g;
  });
}

template <class Rule>
void take_moments(const Rule& r, Followed& p, std::size_t i, double g) {
  p.a[i] = r.beta1 * p.a[i] + (1 - r.beta1) * g;
  p.b[i] = r.beta2 * p.b[i] + (1 - r.beta2) * g * g;
}
inline void follow(const update_rules::Adam& r, Followed& p) {
  const double rate = p.lr * std::sqrt(1 - std::pow(r.beta2, p.t)) / (1 - std::pow(r.beta1, p.t));
  p.each([&](std::size_t i) {
    take_moments(r, p, i, p.decayed(i));
    p.w[i] -= rate * p.a[i] / (std::sqrt(p.b[i]) + r.epsilon);
  });
}
inline void follow(const update_rules::AdamW& r, Followed& p) {
  p.each([&](std::size_t i) {
    p.w[i] -= p.lr * p.wd * p.w[i];
    take_moments(r, p, i, p.g[i]);
    const double mean = p.a[i] / (1 - std::pow(r.beta1, p.t)), variance = p.b[i] / (1 - std::pow(r.beta2, p.t));
    p.w[i] -= p.lr * mean / (std::sqrt(variance) + r.epsilon);
  });
}
inline void follow(const update_rules::RmsProp& r, Followed& p) {
  p.each([&](std::size_t i) {
    const double g = p.decayed(i);
    p.a[i] = r.rho * p.a[i] + (1 - r.rho) * g * g;
    p.c[i] = r.rho * p.c[i] + (1 - r.rho) * g;
    const double variance = r.centered ? p.a[i] - p.c[i] * p.c[i] : p.a[i];
    p.b[i] = r.momentum * p.b[i] + g / (std::sqrt(variance) + r.epsilon);
    p.w[i] -= p.lr * p.b[i];
  });
}
inline void follow(const update_rules::AdaGrad& r, Followed& p) {
  p.each([&](std::size_t i) {
    const double g = p.decayed(i);
    p.a[i] += g * g;
    p.w[i] -= p.lr * g / (std::sqrt(p.a[i]) + r.epsilon);
  });
}
inline void follow(const update_rules::AdaDelta& r, Followed& p) {
  p.each([&](std::size_t i) {
    const double g = p.decayed(i);
    p.a[i] = r.rho * p.a[i] + (1 - r.rho) * g * g;
    const double d = std::sqrt(p.b[i] + r.epsilon) / std::sqrt(p.a[i] + r.epsilon) * g;
    p.b[i] = r.rho * p.b[i] + (1 - r.rho) * d * d;
    p.w[i] -= p.lr * d;
  });
}
// Algorithm 1 of the paper, per coordinate: alpha is the rate, lambda 2 the weight decay.
inline void follow(const update_rules::Ftrl& r, Followed& p) {
  if (p.lr == 0)
    return;
  p.each([&](std::size_t i) {
    const double g = p.g[i], sigma = (std::sqrt(p.b[i] + g * g) - std::sqrt(p.b[i])) / p.lr;
    p.a[i] += g - sigma * p.w[i];
    p.b[i] += g * g;
    const double sign = p.a[i] < 0 ? -1 : 1;
    p.w[i] =
        std::abs(p.a[i]) <= r.lamda1 ? 0 : -(p.a[i] - sign * r.lamda1) / ((r.beta + std::sqrt(p.b[i])) / p.lr + p.wd);
  });
}
inline void follow(const update_rules::Signum& r, Followed& p) {
  p.each([&](std::size_t i) {
    p.a[i] = r.momentum * p.a[i] - (1 - r.momentum) * p.decayed(i);
    const double sign = p.a[i] > 0 ? 1 : p.a[i] < 0 ? -1 : 0;
    p.w[i] = (1 - p.lr * r.wd_lh) * p.w[i] + p.lr * sign;
  });
}
inline void follow(const update_rules::Lars& r, Followed& p) {
  const double weight = norm_of(p.w), grad = norm_of(p.g), rate = p.lr;
  if (!p.plain && weight > 0 && grad > 0)
    p.lr *= r.eta * weight / (grad + p.wd * weight + r.epsilon);
  follow(update_rules::Sgd{r.momentum, true}, p);
  p.lr = rate;
}
inline void follow(const update_rules::Lamb& r, Followed& p) {
  Column direction(p.w.size());
  p.each([&](std::size_t i) {
    take_moments(r, p, i, p.g[i]);
    const double first = r.bias_correction ? 1 - std::pow(r.beta1, p.t) : 1;
    const double second = r.bias_correction ? 1 - std::pow(r.beta2, p.t) : 1;
    direction[i] = p.a[i] / first / (std::sqrt(p.b[i] / second) + r.epsilon) + p.wd * p.w[i];
  });
  double weight = norm_of(p.w);
  if (r.lower_bound >= 0)
    weight = std::max(weight, r.lower_bound);
  if (r.upper_bound >= 0)
    weight = std::min(weight, r.upper_bound);
  const double length = norm_of(direction), ratio = weight > 0 && length > 0 ? weight / length : 1;
  p.each([&](std::size_t i) { p.w[i] -= p.lr * ratio * direction[i]; });
}

/// Calls f with one of every rule, and variants that keep other states.
template <class F>
void each_rule(const F& f) {
  using namespace update_rules;
  f("Sgd", Sgd{});
  f("Sgd with momentum", Sgd{.momentum = 0.9, .momenta = true});
  f("Nag", Nag{});
  f("Nag without momentum", Nag{.momentum = 0});
  f("Adam", Adam{});
  f("AdamW", AdamW{.beta1 = 0.8, .epsilon = 1e-3});
  f("RmsProp", RmsProp{});
  f("RmsProp with momentum", RmsProp{.momentum = 0.5});
  f("RmsProp centered", RmsProp{.epsilon = 1e-3, .centered = true});
  f("RmsProp centered with momentum", RmsProp{.rho = 0.8, .epsilon = 1e-2, .momentum = 0.5, .centered = true});
  f("AdaGrad", AdaGrad{});
  f("AdaDelta", AdaDelta{.epsilon = 1e-3});
  f("Ftrl", Ftrl{.lamda1 = 0.1});
  f("Signum", Signum{.momentum = 0.5, .wd_lh = 0.1});
  f("Signum without momentum", Signum{.momentum = 0});
  f("Lars", Lars{.eta = 0.1, .plain = {0, 1, 0, 0, 0, 0}});
  f("Lamb", Lamb{.epsilon = 1e-3});
  f("Lamb within bounds, uncorrected",
    Lamb{.epsilon = 1e-2, .lower_bound = 0.5, .upper_bound = 2, .bias_correction = false});
}

}  // namespace sluice::test
