#pragma once

#include <memory>
#include <vector>

#include <sluice/gluon/metric.h>
#include <sluice/gluon/train_step.h>

namespace sluice::gluon::detail {

/// Metrics that a TrainStep adds to: those that operators alone make up within its plan, in sums that stay where they
/// are, the others behind it.
class StepMetrics {
 public:
  using Metrics = std::vector<std::shared_ptr<metric::Metric>>;

  explicit StepMetrics(Metrics metrics = {});

  const Metrics& all() const noexcept { return all_; }
  /// Within a trace: what a step adds to the sums.
  void trace(const NDArray& labels, const StepResult& result) const;
  /// Behind a plan that did.
  void finish(const NDArray& labels, const StepResult& result, SourceLocation site) const;
  /// Behind a step by hand.
  void update(const NDArray& labels, const StepResult& result, SourceLocation site) const;
  /// The sums that plans write; undefined ones are made by trace().
  std::vector<NDArray> sums() const;

 private:
  Metrics all_;
  std::vector<metric::SumMetric*> of_operators_;
};

}  // namespace sluice::gluon::detail
