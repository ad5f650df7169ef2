#pragma once

#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/large_batch_optimizers.h>
#include <sluice/gluon/rule_optimizer.h>
#include <sluice/operator/update/rules.h>

// The optimizers. Names and defaults are Gluon's, where nothing else is said; formulas: operator/update/rules.h.
//
// Options that all have: `wd`, the weight decay, joins the gradient, unless the rule says otherwise; `clip_gradient`:
// gradients, rescaled, are cut to [-c, c] before wd joins them, a negative one is for none; `multi_precision`: weights
// of half types have a float32 master each, from which they are rounded after every step. Constructors throw ValueError
// for options out of range.
namespace sluice::gluon::optimizer {

/// Of SGD.
struct SGDOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// g = clip(rescale * grad) + wd * w;  m = momentum * m - lr * g;  w += m (MXNet's SGD).
class SLUICE_API SGD : public RuleOptimizer<update_rules::Sgd> {
 public:
  explicit SGD(SGDOptions options = {});
  std::string name() const override { return "SGD"; }
};

/// Of NAG.
struct NAGOptions {
  double learning_rate = 0.1;
  double momentum = 0.9;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Nesterov's accelerated gradient.
class SLUICE_API NAG : public RuleOptimizer<update_rules::Nag> {
 public:
  explicit NAG(NAGOptions options = {});
  std::string name() const override { return "NAG"; }
};

/// Of Adam.
struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Kingma and Ba, 2014, as MXNet's Adam: weight decay joins the gradient, epsilon stands beside the uncorrected root.
class SLUICE_API Adam : public RuleOptimizer<update_rules::Adam> {
 public:
  explicit Adam(AdamOptions options = {});
  std::string name() const override { return "Adam"; }
};

/// Of AdamW: PyTorch's defaults.
struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double wd = 0.01;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Adam with decoupled weight decay, as PyTorch's AdamW.
class SLUICE_API AdamW : public RuleOptimizer<update_rules::AdamW> {
 public:
  explicit AdamW(AdamWOptions options = {});
  std::string name() const override { return "AdamW"; }
};

/// Of AdaBelief.
struct AdaBeliefOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  bool correct_bias = true;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Zhuang et al., 2020: Adam whose variance is that of gradients about their mean.
class SLUICE_API AdaBelief : public RuleOptimizer<update_rules::AdaBelief> {
 public:
  explicit AdaBelief(AdaBeliefOptions options = {});
  std::string name() const override { return "AdaBelief"; }
};

/// Of Adamax.
struct AdamaxOptions {
  double learning_rate = 0.002;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Adam with the largest gradient, fading, in the place of the root of the variance.
class SLUICE_API Adamax : public RuleOptimizer<update_rules::Adamax> {
 public:
  explicit Adamax(AdamaxOptions options = {});
  std::string name() const override { return "Adamax"; }
};

/// Of Nadam.
struct NadamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double schedule_decay = 0.004;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Adam with Nesterov's momentum, which warms up.
class SLUICE_API Nadam : public RuleOptimizer<update_rules::Nadam> {
 public:
  explicit Nadam(NadamOptions options = {});
  std::string name() const override { return "Nadam"; }
};

/// Of RMSProp. Gluon's momentum counts where `centered`, and is 0.9 there; here, as in PyTorch, it always counts.
struct RMSPropOptions {
  double learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-8;
  bool centered = false;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// As PyTorch's RMSprop.
class SLUICE_API RMSProp : public RuleOptimizer<update_rules::RmsProp> {
 public:
  explicit RMSProp(RMSPropOptions options = {});
  std::string name() const override { return "RMSProp"; }
};

/// Of AdaGrad.
struct AdaGradOptions {
  double learning_rate = 0.01;
  double epsilon = 1e-6;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Duchi, Hazan and Singer, 2011.
class SLUICE_API AdaGrad : public RuleOptimizer<update_rules::AdaGrad> {
 public:
  explicit AdaGrad(AdaGradOptions options = {});
  std::string name() const override { return "AdaGrad"; }
};

/// Of GroupAdaGrad.
struct GroupAdaGradOptions {
  double learning_rate = 0.01;
  double epsilon = 1e-6;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// AdaGrad with one number a row, as for embeddings: the state of a matrix of n rows is n numbers.
class SLUICE_API GroupAdaGrad : public RuleOptimizer<update_rules::GroupAdaGrad> {
 public:
  explicit GroupAdaGrad(GroupAdaGradOptions options = {});
  std::string name() const override { return "GroupAdaGrad"; }
};

/// Of AdaDelta.
struct AdaDeltaOptions {
  double learning_rate = 1;
  double rho = 0.9;
  double epsilon = 1e-6;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Zeiler, 2012.
class SLUICE_API AdaDelta : public RuleOptimizer<update_rules::AdaDelta> {
 public:
  explicit AdaDelta(AdaDeltaOptions options = {});
  std::string name() const override { return "AdaDelta"; }
};

/// Of Ftrl.
struct FtrlOptions {
  double learning_rate = 0.1;
  double lamda1 = 0.01;
  double beta = 1;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// McMahan et al., 2013: weights whose sum of gradients is small become 0. Weight decay is the rule's lambda 2.
class SLUICE_API Ftrl : public RuleOptimizer<update_rules::Ftrl> {
 public:
  explicit Ftrl(FtrlOptions options = {});
  std::string name() const override { return "Ftrl"; }
};

/// Of FTML.
struct FTMLOptions {
  double learning_rate = 0.01;
  double beta1 = 0.6;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Zheng and Kwok, 2017: follow the moving leader.
class SLUICE_API FTML : public RuleOptimizer<update_rules::Ftml> {
 public:
  explicit FTML(FTMLOptions options = {});
  std::string name() const override { return "FTML"; }
};

/// Of SGLD.
struct SGLDOptions {
  double learning_rate = 0.01;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Stochastic gradient Langevin dynamics: half a step of SGD and normal noise of deviation sqrt(lr), so that weights
/// are samples of a posterior. Each step draws from the engine's generator as random::normal() does, one array for all
/// parameters of a type. A step that a Region records throws UnsupportedError: it would be the same noise each time.
class SLUICE_API SGLD : public RuleOptimizer<update_rules::Sgld> {
 public:
  explicit SGLD(SGLDOptions options = {});
  std::string name() const override { return "SGLD"; }

 protected:
  std::vector<NDArray> list_of(const Step& step, const std::string& slot) override;
  /// Noise is not kept.
  std::vector<std::string> slots() const override { return {}; }
  std::vector<std::string> needed_slots(bool /*any*/) const override { return {}; }
};

/// Of DCASGD.
struct DCASGDOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  double lamda = 0.04;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// SGD whose gradients, those of weights that have moved since, are compensated for it.
class SLUICE_API DCASGD : public RuleOptimizer<update_rules::Dcasgd> {
 public:
  explicit DCASGD(DCASGDOptions options = {});
  std::string name() const override { return "DCASGD"; }

 protected:
  bool begins_as_weight(const std::string& slot) const override { return slot == "previous"; }
};

/// Of Signum.
struct SignumOptions {
  double learning_rate = 0.01;
  double momentum = 0.9;
  double wd_lh = 0;  // decoupled weight decay
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Bernstein et al., 2018: steps of one size, by the sign of the momentum, or, without one, of the gradient.
class SLUICE_API Signum : public RuleOptimizer<update_rules::Signum> {
 public:
  explicit Signum(SignumOptions options = {});
  std::string name() const override { return "Signum"; }
};

/// Of Adafactor: PyTorch's defaults and names, but for epsilons (its eps, of which None is a negative epsilon1), and
/// beside them the settings that Hugging Face's has: without relative_step the learning rate counts as it is, without
/// scale_parameter it is not multiplied by the size of the parameter; momentum is its beta1.
struct AdafactorOptions {
  double learning_rate = 0.01;
  double beta2_decay = -0.8;
  double epsilon1 = -1;
  double epsilon2 = 1e-3;
  double clip_threshold = 1;  // PyTorch's d
  double momentum = 0;
  bool relative_step = true;
  bool scale_parameter = true;
  double wd = 0;
  double clip_gradient = -1;
  bool multi_precision = false;
};

/// Shazeer and Stern, 2018: of a matrix it keeps means of rows and columns in the place of a variance an element.
/// Weight decay is decoupled.
class SLUICE_API Adafactor : public RuleOptimizer<update_rules::Adafactor> {
 public:
  explicit Adafactor(AdafactorOptions options = {});
  std::string name() const override { return "Adafactor"; }
};

}  // namespace sluice::gluon::optimizer
