#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/engine/export.h>

// Rules of optimizers for large batches, most of which weigh the rate of each parameter by norms. How to read them:
// operator/update/rules.h.
namespace sluice::update_rules {

/// You, Gitman and Ginsburg, 2017, as MXNet's LARS: SGD with momentum at the rate lr * ratio of each parameter, where
/// ratio = eta * |w| / (|g| + wd * |w| + epsilon), norms without wd in g; 1 where a norm is 0. `plain`, if not empty,
/// says of each parameter whether (1) its ratio is 1 in any case: biases and the like.
struct SLUICE_API Lars {
  double momentum = 0.9;
  double eta = 0.001;
  double epsilon = 1e-8;
  std::vector<std::int64_t> plain = {};

  template <class V>
  void visit(V&& v) {
    v.field("momentum", momentum);
    v.field("eta", eta);
    v.field("epsilon", epsilon);
    v.field("plain", plain);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// You et al., "Large batch optimization for deep learning", 2020, as MXNet's LAMB: m and v as AdamW's;
/// r = M / (sqrt(V) + epsilon) + wd * w;  w -= lr * |w| / |r| * r, with |w| cut to [lower_bound, upper_bound] where
/// these are not negative; the ratio is 1 where a norm is 0. Without bias_correction M = m and V = v.
struct SLUICE_API Lamb {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double lower_bound = -1;
  double upper_bound = -1;
  bool bias_correction = true;

  template <class V>
  void visit(V&& v) {
    v.field("beta1", beta1);
    v.field("beta2", beta2);
    v.field("epsilon", epsilon);
    v.field("lower_bound", lower_bound);
    v.field("upper_bound", upper_bound);
    v.field("bias_correction", bias_correction);
  }
  SLUICE_API std::vector<std::string> states() const;
};

/// Zheng et al., "Accelerated large batch optimization of BERT pretraining in 54 minutes", 2020, as MXNet's LANS: g /=
/// |g| of each parameter, then it is clipped;  m and v as AdamW's;  r = M / (sqrt(V) + epsilon) + wd * w;
/// c = g / (sqrt(V) + epsilon) + wd * w;  w -= lr * |w| * (b1 * r / |r| + (1 - b1) * c / |c|), with |w| cut as Lamb's;
/// a ratio of norms is 1 where one of them is 0, and a gradient of zeros stays (in MXNet all becomes nan).
struct SLUICE_API Lans {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double lower_bound = -1;
  double upper_bound = -1;

  template <class V>
  void visit(V&& v) {
    v.field("beta1", beta1);
    v.field("beta2", beta2);
    v.field("epsilon", epsilon);
    v.field("lower_bound", lower_bound);
    v.field("upper_bound", upper_bound);
  }
  /// "mean" and "variance".
  SLUICE_API std::vector<std::string> states() const;
};

/// SGD on the mean of several batches, as MXNet's LBSGD: with n = begin_updates + t and B = batch_scale, s += g; where
/// B divides n, g = clip(s / B) + wd * w;  m = momentum * m - lr * x * g;  w += m;  s = 0. x grows from 1 to B: x = 1 +
/// (B - 1) * min(1, n / warmup_updates)^warmup_power. With `lars` it is instead |w| / sqrt(|s / B|^2 + wd * |w|^2) of
/// each parameter, within 0.01 and 100. Each g is only rescaled before it is added.
struct SLUICE_API Lbsgd {
  double momentum = 0;
  std::int64_t batch_scale = 1;
  std::int64_t warmup_updates = 160;
  std::int64_t begin_updates = 0;
  double warmup_power = 1;
  bool lars = false;

  template <class V>
  void visit(V&& v) {
    v.field("momentum", momentum);
    v.field("batch_scale", batch_scale);
    v.field("warmup_updates", warmup_updates);
    v.field("begin_updates", begin_updates);
    v.field("warmup_power", warmup_power);
    v.field("lars", lars);
  }
  /// "sum" and "momentum".
  SLUICE_API std::vector<std::string> states() const;
};

}  // namespace sluice::update_rules
