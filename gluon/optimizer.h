#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/parameter.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon::optimizer {

/// How weights follow gradients. State (momenta and the like) is kept by parameter name, made at first use beside
/// the parameter, and moves with it.
class SLUICE_API Optimizer {
 public:
  using States = std::map<std::string, NDArray>;

  virtual ~Optimizer() = default;

  /// One step over all `parameters` with their gradients times `rescale_grad`: one task. Does not block.
  void update(std::span<const ParameterDict::Entry> parameters, double rescale_grad);

  double learning_rate() const noexcept { return learning_rate_; }
  /// Throws ValueError unless the rate is finite and not negative.
  void set_learning_rate(double learning_rate);
  /// Steps taken so far.
  std::int64_t num_updates() const noexcept { return num_updates_; }

  /// All state by name, "0.weight.mean", and the number of steps, "num_updates".
  States states() const;
  /// Goes on from states(). Throws ValueError if "num_updates" is missing or no number.
  void load_states(const States& states);

 protected:
  /// The arrays of one step, in the order of the parameters.
  struct Step {
    std::vector<NDArray> weights, grads;
    std::vector<double> learning_rate_multipliers, weight_decay_multipliers;  // empty: all 1
    double rescale_grad = 1;
    std::int64_t number = 1;  // counted from 1
    std::span<const ParameterDict::Entry> parameters;
  };

  explicit Optimizer(double learning_rate);
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  virtual void apply(const Step& step) = 0;
  /// State array `slot` of each parameter: zeros at first use, of the weight's shape, float32 (float64 for float64).
  std::vector<NDArray> state(const Step& step, const std::string& slot);

 private:
  double learning_rate_;
  std::int64_t num_updates_ = 0;
  States states_;
};

/// Of SGD.
struct SGDOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  double clip_gradient = -1;  // negative: none; else rescaled gradients are cut to [-c, c]
};

/// g = clip(rescale * grad) + wd * w;  m = momentum * m - lr * g;  w += m (MXNet's SGD).
class SLUICE_API SGD : public Optimizer {
 public:
  /// Throws ValueError for options out of range.
  explicit SGD(SGDOptions options = {});

 protected:
  void apply(const Step& step) override;

 private:
  SGDOptions options_;
};

/// Of Adam.
struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double clip_gradient = -1;
};

/// Kingma and Ba, 2014, as MXNet's Adam: weight decay joins the gradient, epsilon stands beside the uncorrected root.
class SLUICE_API Adam : public Optimizer {
 public:
  /// Throws ValueError for options out of range.
  explicit Adam(AdamOptions options = {});

 protected:
  void apply(const Step& step) override;

 private:
  AdamOptions options_;
};

}  // namespace sluice::gluon::optimizer
