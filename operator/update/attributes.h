#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sluice/operator/attributes.h>
#include <sluice/operator/update/rule.h>
#include <sluice/operator/update/update.h>

// The settings of one step as attributes of its operator.
namespace sluice::detail {

/// What the steps have in common. Numbers of the step (learning rates, rescale_grad) count where the call brings none.
struct UpdateAttributes {
  double learning_rate = 0;
  double weight_decay = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  std::vector<double> learning_rate_multipliers = {};
  std::vector<double> weight_decay_multipliers = {};

  UpdateAttributes() = default;
  /// Where the call brings the numbers of its step, they are no attributes: calls of all steps are the same then.
  template <class Options>
  explicit UpdateAttributes(const Options& o)
      : learning_rate(o.numbers.defined() ? 0 : o.learning_rate),
        weight_decay(o.weight_decay),
        rescale_grad(o.numbers.defined() ? 1 : o.rescale_grad),
        clip_gradient(o.clip_gradient),
        learning_rate_multipliers(o.learning_rate_multipliers),
        weight_decay_multipliers(o.weight_decay_multipliers) {}

  template <class V>
  void visit(V&& v) {
    v.field("learning_rate", learning_rate);
    v.field("weight_decay", weight_decay);
    v.field("rescale_grad", rescale_grad);
    v.field("clip_gradient", clip_gradient);
    v.field("learning_rate_multipliers", learning_rate_multipliers);
    v.field("weight_decay_multipliers", weight_decay_multipliers);
  }
  /// Throws ValueError for multipliers that are not one a parameter. `numbers`: the call brings those of its step.
  void check(const char* op, std::size_t count, bool numbers) const;
  /// Of each parameter.
  std::vector<double> decays(std::size_t count) const;
};

struct SgdAttributes : UpdateAttributes {
  double momentum = 0;
  bool momenta = false;  // there is a list of them

  SgdAttributes() = default;
  SgdAttributes(const SgdUpdate& o, bool has_momenta)
      : UpdateAttributes(o), momentum(o.momentum), momenta(has_momenta) {}

  template <class V>
  void visit(V&& v) {
    UpdateAttributes::visit(v);
    v.field("momentum", momentum);
    v.field("momenta", momenta);
  }
  std::size_t lists() const noexcept { return momenta ? 3 : 2; }
  /// Throws ValueError for a momentum without momenta, too.
  void check(const char* op, std::size_t count, bool numbers) const;
  UpdateRule<double> rule() const noexcept;
  std::vector<double> rates(std::size_t count) const;
};

struct AdamAttributes : UpdateAttributes {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::vector<std::int64_t> steps = {};  // not looked at where the call brings its numbers

  AdamAttributes() = default;
  explicit AdamAttributes(const AdamUpdate& o)
      : UpdateAttributes(o), beta1(o.beta1), beta2(o.beta2), epsilon(o.epsilon) {
    if (!o.numbers.defined())
      steps = o.steps;
  }

  template <class V>
  void visit(V&& v) {
    UpdateAttributes::visit(v);
    v.field("beta1", beta1);
    v.field("beta2", beta2);
    v.field("epsilon", epsilon);
    v.field("steps", steps);
  }
  std::size_t lists() const noexcept { return 4; }
  void check(const char* op, std::size_t count, bool numbers) const;
  UpdateRule<double> rule() const noexcept;
  std::vector<double> rates(std::size_t count) const;
};

/// Throws ValueError unless there is one of `what` a weight.
void check_count(const char* op, const char* what, std::size_t count, std::size_t weights);

extern const Operator k_sgd_update, k_adam_update;

}  // namespace sluice::detail
