#pragma once

#include <cstdint>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/gluon/rule_optimizer.h>

// Optimizers for large batches. What their options have in common: gluon/optimizers.h.
namespace sluice::gluon::optimizer {

/// Of LARS.
struct LARSOptions {
  double learning_rate = 0.1;
  double momentum = 0;
  double eta = 0.001;
  double epsilon = 1e-8;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// You, Gitman and Ginsburg, 2017. As in Gluon, parameters whose names end in gamma, beta or bias follow plain SGD.
class SLUICE_API LARS : public RuleOptimizer<update_rules::Lars> {
 public:
  explicit LARS(LARSOptions options = {});
  std::string name() const override { return "LARS"; }

 protected:
  update_rules::Lars rule_of(const Step& step) const override;
};

/// Of LAMB; a negative bound is none.
struct LAMBOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double lower_bound = -1;
  double upper_bound = -1;
  bool bias_correction = true;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// You et al., 2020.
class SLUICE_API LAMB : public RuleOptimizer<update_rules::Lamb> {
 public:
  explicit LAMB(LAMBOptions options = {});
  std::string name() const override { return "LAMB"; }
};

/// Of LANS; a negative bound is none.
struct LANSOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double lower_bound = -1;
  double upper_bound = -1;
  double wd = 0;
  double clip_gradient = -1;  // of gradients whose norm is 1
  bool multi_precision = false;
};

/// Zheng et al., 2020: LAMB with Nesterov's momentum, of gradients whose norm is 1 for each parameter.
class SLUICE_API LANS : public RuleOptimizer<update_rules::Lans> {
 public:
  explicit LANS(LANSOptions options = {});
  std::string name() const override { return "LANS"; }
};

/// How the rate of LBSGD grows to batch_scale times what it is: with the number of the batch, its square, its root; or
/// by the norms of each parameter, as LARS, whatever the number.
enum class LargeBatchWarmup : std::uint8_t { linear, power2, sqrt, lars };

/// Of LBSGD.
struct LBSGDOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  LargeBatchWarmup warmup_strategy = LargeBatchWarmup::linear;
  std::int64_t warmup_epochs = 5;
  std::int64_t batch_scale = 1;         // batches whose gradients are one step
  std::int64_t updates_per_epoch = 32;  // batches
  std::int64_t begin_epoch = 0;         // where training goes on, without states, from another's
  double wd = 0;
  double clip_gradient = -1;  // of the mean of batch_scale batches
  bool multi_precision = false;
};

/// SGD for batches that are batch_scale times as large as those that fit: step() adds each one's gradient to a sum, and
/// each batch_scale-th updates weights by the mean, at a rate that warms up over warmup_epochs. Steps and schedules
/// count batches. A step that a guard leaves out adds nothing; where it was to be the one that updates, the next one
/// that is has the gradients of both.
class SLUICE_API LBSGD : public RuleOptimizer<update_rules::Lbsgd> {
 public:
  /// Throws ValueError for a batch_scale or updates_per_epoch below 1, too, and for numbers above a billion.
  explicit LBSGD(LBSGDOptions options = {});
  std::string name() const override { return "LBSGD"; }
};

}  // namespace sluice::gluon::optimizer
