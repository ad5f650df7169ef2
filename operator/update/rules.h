#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/operator/update/large_batch_rules.h>
#include <sluice/operator/update/update.h>

namespace sluice {

/// The rules of optimizers as optimizer_update() takes them. Each says which states it keeps, in their order, by name.
/// In the formulas g = clip(rescale * grad), t counts the steps of a parameter from 1, and wd * w joins g first unless
/// the formula says otherwise.
namespace update_rules {

/// sgd_update(): m = momentum * m - lr * g;  w += m.
struct SLUICE_API Sgd {
  double momentum = 0;
  bool momenta = false;  // there is a list of them, whatever the momentum

  template <class V>
  void visit(V&& v) {
    v.field("momentum", momentum);
    v.field("momenta", momenta);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// Nesterov, 1983, as MXNet's NAG: m = momentum * m - lr * g;  w += momentum * m - lr * g. No state without momentum.
struct SLUICE_API Nag {
  double momentum = 0.9;

  template <class V>
  void visit(V&& v) {
    v.field("momentum", momentum);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// adam_update().
struct SLUICE_API Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  template <class V>
  void visit(V&& v) {
    v.field("beta1", beta1);
    v.field("beta2", beta2);
    v.field("epsilon", epsilon);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019, as PyTorch's AdamW: w -= lr * wd * w;
/// m = b1 * m + (1 - b1) * g;  v = b2 * v + (1 - b2) * g * g;  w -= lr * M / (sqrt(V) + epsilon), where
/// M = m / (1 - b1^t) and V = v / (1 - b2^t). wd does not join g.
struct SLUICE_API AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  template <class V>
  void visit(V&& v) {
    v.field("beta1", beta1);
    v.field("beta2", beta2);
    v.field("epsilon", epsilon);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// Zhuang et al., "AdaBelief optimizer", 2020, as MXNet's AdaBelief: m = b1 * m + (1 - b1) * g;
/// s = b2 * s + (1 - b2) * (g - m)^2 + epsilon;  w -= lr * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(s) + epsilon).
/// Without correct_bias w -= lr * m / (sqrt(s) + epsilon).
struct SLUICE_API AdaBelief {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  bool correct_bias = true;

  template <class V>
  void visit(V&& v) {
    v.field("beta1", beta1);
    v.field("beta2", beta2);
    v.field("epsilon", epsilon);
    v.field("correct_bias", correct_bias);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// Kingma and Ba, 2014, section 7, as MXNet's Adamax: m = b1 * m + (1 - b1) * g;  u = max(b2 * u, |g|);
/// w -= lr / (1 - b1^t) * m / u. Where u is 0 the weight stays (in MXNet it becomes nan).
struct SLUICE_API Adamax {
  double beta1 = 0.9;
  double beta2 = 0.999;

  template <class V>
  void visit(V&& v) {
    v.field("beta1", beta1);
    v.field("beta2", beta2);
  }
  /// "mean" and "norm".
  SLUICE_API std::vector<std::string> states() const;
};

/// Dozat, "Incorporating Nesterov momentum into Adam", 2015, as MXNet's Nadam: m and v as Adam's; with
/// c(t) = b1 * (1 - 0.96^(t * schedule_decay) / 2) and P(t) = c(1) * .. * c(t):
/// w -= lr * ((1 - c(t)) * g / (1 - P(t)) + c(t + 1) * m / (1 - P(t + 1))) / (sqrt(v / (1 - b2^t)) + epsilon). P is
/// each parameter's own (MXNet has one P for all, which goes on with every parameter's step).
struct SLUICE_API Nadam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double schedule_decay = 0.004;

  template <class V>
  void visit(V&& v) {
    v.field("beta1", beta1);
    v.field("beta2", beta2);
    v.field("epsilon", epsilon);
    v.field("schedule_decay", schedule_decay);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// Tieleman and Hinton, 2012, as PyTorch's RMSprop: v = rho * v + (1 - rho) * g * g;  d = g / (sqrt(v) + epsilon);
/// w -= lr * d. `centered` (Graves, 2013): a = rho * a + (1 - rho) * g, and sqrt(v - a * a). With momentum:
/// m = momentum * m + d;  w -= lr * m.
struct SLUICE_API RmsProp {
  double rho = 0.9;
  double epsilon = 1e-8;
  double momentum = 0;
  bool centered = false;

  template <class V>
  void visit(V&& v) {
    v.field("rho", rho);
    v.field("epsilon", epsilon);
    v.field("momentum", momentum);
    v.field("centered", centered);
  }
  /// "variance"; with momentum or centered "momentum" too; centered "mean".
  SLUICE_API std::vector<std::string> states() const;
};

/// Duchi, Hazan and Singer, 2011, as MXNet's AdaGrad: h += g * g;  w -= lr * g / (sqrt(h) + epsilon).
struct SLUICE_API AdaGrad {
  double epsilon = 1e-6;

  template <class V>
  void visit(V&& v) {
    v.field("epsilon", epsilon);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// AdaGrad with one rate a row, as MXNet's GroupAdaGrad: h += mean of g * g along a row;
/// w -= lr * g / (sqrt(h) + epsilon). A row is what stands at one place of the first axis: of a vector an element, of
/// no axes the number.
struct SLUICE_API GroupAdaGrad {
  double epsilon = 1e-6;

  template <class V>
  void visit(V&& v) {
    v.field("epsilon", epsilon);
  }
  SLUICE_API std::vector<std::string> states() const;
  /// Of the state beside a weight of that shape: the axes behind the first are 1.
  SLUICE_API Shape state_shape(std::size_t i, const Shape& weight) const;
};

/// Zeiler, 2012, as MXNet's AdaDelta: h = rho * h + (1 - rho) * g * g;  d = sqrt(u + epsilon) / sqrt(h + epsilon) * g;
/// u = rho * u + (1 - rho) * d * d;  w -= lr * d.
struct SLUICE_API AdaDelta {
  double rho = 0.9;
  double epsilon = 1e-6;

  template <class V>
  void visit(V&& v) {
    v.field("rho", rho);
    v.field("epsilon", epsilon);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// McMahan et al., "Ad click prediction", 2013, as MXNet's Ftrl: z += g - (sqrt(n + g * g) - sqrt(n)) / lr * w;
/// n += g * g;  w = |z| > lamda1 ? (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) : 0. wd does not join g. At a
/// rate of 0 nothing changes.
struct SLUICE_API Ftrl {
  double lamda1 = 0.01;
  double beta = 1;

  template <class V>
  void visit(V&& v) {
    v.field("lamda1", lamda1);
    v.field("beta", beta);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// Zheng and Kwok, "Follow the moving leader in deep learning", 2017, as MXNet's FTML: v = b2 * v + (1 - b2) * g * g;
/// D = (1 - b1^t) / lr * (sqrt(v / (1 - b2^t)) + epsilon);  z = b1 * z + (1 - b1) * g - (D - b1 * d) * w;  d = D;
/// w = -z / d. At a rate of 0 nothing changes, and where d is 0 the weight stays.
struct SLUICE_API Ftml {
  double beta1 = 0.6;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  template <class V>
  void visit(V&& v) {
    v.field("beta1", beta1);
    v.field("beta2", beta2);
    v.field("epsilon", epsilon);
  }
  /// "d", "v" and "z".
  SLUICE_API std::vector<std::string> states() const;
};

/// Patterson and Teh, 2013, as MXNet's SGLD: w += -lr / 2 * g + sqrt(lr) * noise. The one list beside weights and
/// gradients is that noise, normal of deviation 1, which the step only reads.
struct SLUICE_API Sgld {
  template <class V>
  void visit(V&&) {}
  /// "noise".
  SLUICE_API std::vector<std::string> states() const;
};

/// Zheng et al., "Asynchronous stochastic gradient descent with delay compensation", 2016, as MXNet's DCASGD, with g
/// without wd: m = momentum * m - lr * (g + wd * w + lamda * g * g * (w - p));  p = w;  w += m. No m without momentum.
struct SLUICE_API Dcasgd {
  double momentum = 0;
  double lamda = 0.04;

  template <class V>
  void visit(V&& v) {
    v.field("momentum", momentum);
    v.field("lamda", lamda);
  }
  /// "previous", which is to begin as the weight; with momentum "momentum" too.
  SLUICE_API std::vector<std::string> states() const;
};

/// Bernstein et al., "signSGD", 2018, as MXNet's Signum: m = momentum * m - (1 - momentum) * g;
/// w = (1 - lr * wd_lh) * w + lr * sign(m). No state without momentum: m = -g.
struct SLUICE_API Signum {
  double momentum = 0.9;
  double wd_lh = 0;

  template <class V>
  void visit(V&& v) {
    v.field("momentum", momentum);
    v.field("wd_lh", wd_lh);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// Shazeer and Stern, "Adafactor", 2018, as PyTorch's. A weight of two axes and more is one matrix or several, along
/// its last two axes, of whose squared gradients the means of rows and of columns are kept: with b = t^beta2_decay, r
/// += b * (mean of rows - r) and c += b * (mean of columns - c), and V = r c / max(mean of r, e1). Of others V += b *
/// (g * g - V). Then u = g / sqrt(max(V, e1^2));  u /= max(1, RMS(u) / clip_threshold); a = min(lr, 1 / sqrt(t)) *
/// max(e2, RMS(w));  w -= lr * wd * w;  w -= a * u. wd does not join g. Without relative_step a begins with lr, without
/// scale_parameter it is that. With momentum (the paper's beta1): m = momentum * m + (1 - momentum) * a * u;  w -= m. A
/// negative epsilon1 is the distance from 1 to the next number of the weight's type.
struct SLUICE_API Adafactor {
  double beta2_decay = -0.8;
  double epsilon1 = -1;
  double epsilon2 = 1e-3;
  double clip_threshold = 1;
  double momentum = 0;
  bool relative_step = true;
  bool scale_parameter = true;

  template <class V>
  void visit(V&& v) {
    v.field("beta2_decay", beta2_decay);
    v.field("epsilon1", epsilon1);
    v.field("epsilon2", epsilon2);
    v.field("clip_threshold", clip_threshold);
    v.field("momentum", momentum);
    v.field("relative_step", relative_step);
    v.field("scale_parameter", scale_parameter);
  }
  /// "variance" (of rows where there are some) and "column_variance"; with momentum "momentum" too.
  SLUICE_API std::vector<std::string> states() const;
  /// Of the i-th state beside a weight of that shape; of no columns (0,).
  SLUICE_API Shape state_shape(std::size_t i, const Shape& weight) const;
};

/// The shape of the i-th state beside a weight of that shape.
template <class Rule>
Shape state_shape(const Rule& rule, std::size_t i, const Shape& weight) {
  if constexpr (requires { rule.state_shape(i, weight); })
    return rule.state_shape(i, weight);
  else
    return weight;
}

}  // namespace update_rules

/// Settings of optimizer_update(), as those of AdamUpdate; steps are looked at by the rules that count them (those
/// with a beta1, Lbsgd and Adafactor), and may be empty for others. `numbers`, if defined: update_numbers() of the
/// rule.
struct UpdateOptions {
  double learning_rate = 0.01;
  double weight_decay = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  std::vector<std::int64_t> steps = {};
  std::vector<double> learning_rate_multipliers = {};
  std::vector<double> weight_decay_multipliers = {};
  NDArray numbers = {};
  std::vector<NDArray> masters = {};
  NDArray guard = {};
};

/// One step of any rule over all parameters: one task, in place; `states` are lists of arrays in the order of
/// rule.states(). What arrays may be, what it throws and who waits (nobody): operator/update/update.h.
template <class Rule>
SLUICE_API void optimizer_update(
    const Rule& rule,
    std::span<const NDArray> weights,
    std::span<const NDArray> grads,
    std::span<const std::vector<NDArray>> states,
    const UpdateOptions& options,
    SourceLocation site = SourceLocation::current());

/// The numbers of one step with these options, for an array that steps read them from: of each parameter one to three,
/// as the rule needs, then rescale_grad. Throws ValueError as the step does.
template <class Rule>
SLUICE_API std::vector<double> update_numbers(const Rule& rule, const UpdateOptions& options, std::size_t parameters);

}  // namespace sluice
