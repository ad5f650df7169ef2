#pragma once

#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/operator/update/rules.h>

namespace sluice::gluon::optimizer {

/// What optimizers of one rule have in common.
template <class Rule>
class SLUICE_API RuleOptimizer : public Optimizer {
 public:
  Shape state_shape(const std::string& slot, const Shape& parameter) const override;

 protected:
  template <class Options>
  RuleOptimizer(const Options& options, const Rule& rule)
      : Optimizer(options.learning_rate),
        wd_(options.wd),
        clip_gradient_(options.clip_gradient),
        multi_precision_(options.multi_precision),
        rule_(rule) {}
  /// Throws ValueError for settings that all have and are out of range.
  void check() const;

  void apply(const Step& step) override;
  std::vector<double> numbers_of(const Step& step) const override;
  std::vector<std::string> slots() const override;
  std::vector<std::string> needed_slots(bool any) const override;
  bool takes_guard() const override { return true; }
  bool counts_steps() const override;
  NDArray corrections(const NDArray& steps, SourceLocation site) const override;
  bool keeps_masters() const override { return multi_precision_; }
  /// The arrays of one list that the rule asks for.
  virtual std::vector<NDArray> list_of(const Step& step, const std::string& slot) { return state(step, slot); }
  /// The rule of this step.
  virtual Rule rule_of([[maybe_unused]] const Step& step) const { return rule_; }

 private:
  UpdateOptions options_of(const Step& step) const;

  double wd_, clip_gradient_;
  bool multi_precision_;
  Rule rule_;
};

}  // namespace sluice::gluon::optimizer
