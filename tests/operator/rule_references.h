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

inline double cut_to(double value, double clip) {
  return clip < 0 ? value : std::min(std::max(value, -clip), clip);
}

/// One parameter as a reference sees it: gradients rescaled, and cut, states that begin at 0.
struct Followed {
  Column w, g, a, b, c;
  Column whole = {};  // gradients that are not cut
  double lr = 0, wd = 0, t = 1, clip = -1;
  bool plain = false;
  Shape shape = {};  // of the weight

  explicit Followed(const Column& weight) : w(weight), g(weight.size()), a(g), b(g), c(g) {}
  void each(const std::function<void(std::size_t)>& f) const {
    for (std::size_t i = 0; i < w.size(); ++i)
      f(i);
  }
  double decayed(std::size_t i) const { return g[i] + wd * w[i]; }
  void take(const Column& gradient, const UpdateOptions& told) {
    whole = gradient;
    clip = told.clip_gradient;
    for (std::size_t i = 0; i < whole.size(); ++i)
      g[i] = cut_to(whole[i] *= told.rescale_grad, clip);
  }
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
inline void follow(const update_rules::AdaBelief& r, Followed& p) {
  const double correction = std::sqrt(1 - std::pow(r.beta2, p.t)) / (1 - std::pow(r.beta1, p.t));
  p.each([&](std::size_t i) {
    const double g = p.decayed(i);
    p.a[i] = r.beta1 * p.a[i] + (1 - r.beta1) * g;
    p.b[i] = r.beta2 * p.b[i] + (1 - r.beta2) * (g - p.a[i]) * (g - p.a[i]) + r.epsilon;
    p.w[i] -= p.lr * (r.correct_bias ? correction : 1) * p.a[i] / (std::sqrt(p.b[i]) + r.epsilon);
  });
}
inline void follow(const update_rules::Adamax& r, Followed& p) {
  p.each([&](std::size_t i) {
    const double g = p.decayed(i);
    p.a[i] = r.beta1 * p.a[i] + (1 - r.beta1) * g;
    p.b[i] = std::max(r.beta2 * p.b[i], std::abs(g));
    p.w[i] -= p.b[i] == 0 ? 0 : p.lr / (1 - std::pow(r.beta1, p.t)) * p.a[i] / p.b[i];
  });
}
// Momenta are run through one by one, as papers and MXNet do.
inline void follow(const update_rules::Nadam& r, Followed& p) {
  const auto momentum = [&](double t) { return r.beta1 * (1 - 0.5 * std::pow(0.96, t * r.schedule_decay)); };
  double product = 1;
  for (double t = 1; t <= p.t; ++t)
    product *= momentum(t);
  const double now = momentum(p.t), next = momentum(p.t + 1);
  p.each([&](std::size_t i) {
    const double g = p.decayed(i);
    take_moments(r, p, i, g);
    const double mean = (1 - now) * g / (1 - product) + next * p.a[i] / (1 - product * next);
    p.w[i] -= p.lr * mean / (std::sqrt(p.b[i] / (1 - std::pow(r.beta2, p.t))) + r.epsilon);
  });
}
inline void follow(const update_rules::Ftml& r, Followed& p) {
  if (p.lr == 0)
    return;
  p.each([&](std::size_t i) {
    const double g = p.decayed(i), before = p.a[i];
    p.b[i] = r.beta2 * p.b[i] + (1 - r.beta2) * g * g;
    p.a[i] = (1 - std::pow(r.beta1, p.t)) / p.lr * (std::sqrt(p.b[i] / (1 - std::pow(r.beta2, p.t))) + r.epsilon);
    p.c[i] = r.beta1 * p.c[i] + (1 - r.beta1) * g - (p.a[i] - r.beta1 * before) * p.w[i];
    p.w[i] = -p.c[i] / p.a[i];
  });
}
// The noise is a.
inline void follow(const update_rules::Sgld&, Followed& p) {
  p.each([&](std::size_t i) { p.w[i] += -p.lr / 2 * p.decayed(i) + std::sqrt(p.lr) * p.a[i]; });
}
inline void follow(const update_rules::Dcasgd& r, Followed& p) {
  p.each([&](std::size_t i) {
    const double moved = p.w[i] - p.a[i];
    p.a[i] = p.w[i];
    p.b[i] = r.momentum * p.b[i] - p.lr * (p.decayed(i) + r.lamda * p.g[i] * p.g[i] * moved);
    p.w[i] += p.b[i];
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
inline void follow(const update_rules::GroupAdaGrad& r, Followed& p) {
  const std::size_t rows = p.shape.ndim() == 0 ? 1 : static_cast<std::size_t>(p.shape[0]);
  const std::size_t columns = rows == 0 ? 0 : p.w.size() / rows;
  p.each([&](std::size_t i) { p.a[i / columns] += p.decayed(i) * p.decayed(i) / static_cast<double>(columns); });
  p.each([&](std::size_t i) { p.w[i] -= p.lr * p.decayed(i) / (std::sqrt(p.a[i / columns]) + r.epsilon); });
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

inline void follow(const update_rules::Lans& r, Followed& p) {
  const double length = norm_of(p.whole);
  Column mean(p.w.size()), grad(p.w.size());
  p.each([&](std::size_t i) {
    const double g = length == 0 ? 0 : cut_to(p.whole[i] / length, p.clip);
    take_moments(r, p, i, g);
    const double root = std::sqrt(p.b[i] / (1 - std::pow(r.beta2, p.t))) + r.epsilon;
    mean[i] = p.a[i] / (1 - std::pow(r.beta1, p.t)) / root + p.wd * p.w[i];
    grad[i] = g / root + p.wd * p.w[i];
  });
  double weight = norm_of(p.w);
  if (r.lower_bound >= 0)
    weight = std::max(weight, r.lower_bound);
  if (r.upper_bound >= 0)
    weight = std::min(weight, r.upper_bound);
  const auto ratio = [&](double norm) { return weight > 0 && norm > 0 ? weight / norm : 1; };
  const double of_mean = r.beta1 * ratio(norm_of(mean)), of_grad = (1 - r.beta1) * ratio(norm_of(grad));
  p.each([&](std::size_t i) { p.w[i] -= p.lr * (of_mean * mean[i] + of_grad * grad[i]); });
}
inline void follow(const update_rules::Lbsgd& r, Followed& p) {
  const double number = static_cast<double>(r.begin_updates) + p.t, scale = static_cast<double>(r.batch_scale);
  p.each([&](std::size_t i) { p.a[i] += p.whole[i]; });
  if (std::fmod(number, scale) != 0)
    return;
  Column mean(p.w.size());
  p.each([&](std::size_t i) { mean[i] = cut_to(p.a[i] / scale, p.clip); });
  const double warm = std::min(1.0, number / static_cast<double>(r.warmup_updates));
  double rate = 1 + (scale - 1) * std::pow(warm, r.warmup_power);
  if (r.lars) {
    const double weight = norm_of(p.w), length = norm_of(mean);
    rate = std::sqrt(weight * weight / (length * length + p.wd * weight * weight + 1e-18));
    rate = std::min(std::max(rate, 0.01), 100.0);
  }
  p.each([&](std::size_t i) {
    p.b[i] = r.momentum * p.b[i] - p.lr * rate * (mean[i] + p.wd * p.w[i]);
    p.w[i] += p.b[i];
    p.a[i] = 0;
  });
}

// RMS of the paper.
inline double rms_of(const Column& values) {
  return norm_of(values) / std::sqrt(static_cast<double>(values.size()));
}
inline void follow(const update_rules::Adafactor& r, Followed& p) {
  const double share = std::pow(p.t, r.beta2_decay);
  const std::size_t size = p.w.size(), axes = static_cast<std::size_t>(p.shape.ndim());
  if (size == 0)
    return;
  const std::size_t columns = axes < 2 ? size : static_cast<std::size_t>(p.shape[p.shape.ndim() - 1]);
  const std::size_t rows = axes < 2 ? 1 : static_cast<std::size_t>(p.shape[p.shape.ndim() - 2]);
  Column along(size);
  for (std::size_t matrix = 0; matrix < size; matrix += rows * columns) {
    Column of_rows(rows), of_columns(columns);
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const double square = p.g[matrix + i] * p.g[matrix + i];
      of_rows[i / columns] += square / static_cast<double>(columns);
      of_columns[i % columns] += square / static_cast<double>(rows);
    }
    double mean = 0;
    for (std::size_t i = 0; axes >= 2 && i < rows; ++i) {
      double& row = p.a[matrix / columns + i];
      row = (1 - share) * row + share * of_rows[i];
      mean += row / static_cast<double>(rows);
    }
    for (std::size_t i = 0; i < columns; ++i) {
      double& column = axes < 2 ? p.a[i] : p.b[matrix / rows + i];
      column = (1 - share) * column + share * of_columns[i];
    }
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const double variance = axes < 2 ? p.a[i]
                                       : p.a[matrix / columns + i / columns] * p.b[matrix / rows + i % columns] /
                                             std::max(mean, r.epsilon1);
      along[matrix + i] = p.g[matrix + i] / std::sqrt(std::max(variance, r.epsilon1 * r.epsilon1));
    }
  }
  const double rate = r.relative_step ? std::min(p.lr, 1 / std::sqrt(p.t)) : p.lr;
  const double length = r.scale_parameter ? std::max(r.epsilon2, rms_of(p.w)) * rate : rate;
  const double cut = std::max(1.0, rms_of(along) / r.clip_threshold);
  p.each([&](std::size_t i) {
    p.c[i] = r.momentum * p.c[i] + (1 - r.momentum) * length / cut * along[i];
    p.w[i] = (1 - p.lr * p.wd) * p.w[i] - p.c[i];
  });
}

/// The same numbers where no vector begins.
inline NDArray behind_a_vector(const NDArray& x) {
  const NDArray room = zeros({x.size() + 1}, {.dtype = x.dtype(), .device = x.device()});
  const NDArray there = room.slice(0, 1, x.size() + 1).reshape(x.shape());
  copy_into(x, there);
  return there;
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
  f("AdaBelief", AdaBelief{.beta1 = 0.8, .epsilon = 1e-3});
  f("AdaBelief, uncorrected", AdaBelief{.beta2 = 0.9, .epsilon = 1e-2, .correct_bias = false});
  f("Adamax", Adamax{.beta2 = 0.9});
  f("Nadam", Nadam{.beta1 = 0.8, .epsilon = 1e-3, .schedule_decay = 3});
  f("RmsProp", RmsProp{});
  f("RmsProp with momentum", RmsProp{.momentum = 0.5});
  f("RmsProp centered", RmsProp{.epsilon = 1e-3, .centered = true});
  f("RmsProp centered with momentum", RmsProp{.rho = 0.8, .epsilon = 1e-2, .momentum = 0.5, .centered = true});
  f("AdaGrad", AdaGrad{});
  f("GroupAdaGrad", GroupAdaGrad{});
  f("AdaDelta", AdaDelta{.epsilon = 1e-3});
  f("Ftrl", Ftrl{.lamda1 = 0.1});
  f("Ftml", Ftml{.epsilon = 1e-3});
  f("Sgld", Sgld{});
  f("Dcasgd", Dcasgd{.lamda = 0.5});
  f("Dcasgd with momentum", Dcasgd{.momentum = 0.5, .lamda = 0.5});
  f("Signum", Signum{.momentum = 0.5, .wd_lh = 0.1});
  f("Signum without momentum", Signum{.momentum = 0});
  f("Lars", Lars{.eta = 0.1, .plain = {0, 1, 0, 1, 0, 0}});
  f("Lamb", Lamb{.epsilon = 1e-3});
  f("Lamb within bounds, uncorrected",
    Lamb{.epsilon = 1e-2, .lower_bound = 0.5, .upper_bound = 2, .bias_correction = false});
  f("Lans", Lans{.epsilon = 1e-3});
  f("Lans within bounds", Lans{.beta1 = 0.5, .epsilon = 1e-2, .lower_bound = 0.5, .upper_bound = 2});
  f("Lbsgd", Lbsgd{.momentum = 0.5, .batch_scale = 2, .warmup_updates = 5, .warmup_power = 2});
  f("Lbsgd by norms", Lbsgd{.batch_scale = 3, .begin_updates = 4, .lars = true});
  f("Adafactor", Adafactor{.epsilon1 = 1e-6});
  f("Adafactor with momentum, of steps as told",
    Adafactor{
        .beta2_decay = -0.6,
        .epsilon1 = 1e-3,
        .clip_threshold = 0.5,
        .momentum = 0.5,
        .relative_step = false,
        .scale_parameter = false});
}

}  // namespace sluice::test
