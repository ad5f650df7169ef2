#include <algorithm>
#include <typeinfo>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/class_metrics.h>
#include <sluice/gluon/detail/step_metrics.h>
#include <sluice/gluon/metrics.h>
#include <sluice/ndarray/autograd.h>

namespace sluice::gluon::detail {

namespace {

// Of these very types, whose measure() looks at no value and no size of the batch: what derives from one may.
template <class... M>
bool is_one_of(const metric::Metric& metric) {
  return ((typeid(metric) == typeid(M)) || ...);
}

bool is_of_operators(const metric::Metric& metric) {
  return is_one_of<
      metric::Loss,
      metric::Accuracy,
      metric::TopKAccuracy,
      metric::MAE,
      metric::MSE,
      metric::RMSE,
      metric::CrossEntropy,
      metric::Perplexity>(metric);
}

bool is_of_losses(const metric::Metric& metric) {
  return dynamic_cast<const metric::Loss*>(&metric) != nullptr;
}

void update_one(metric::Metric& metric, const NDArray& labels, const StepResult& result, SourceLocation site) {
  metric.update(
      is_of_losses(metric) ? result.losses : labels, is_of_losses(metric) ? result.losses : result.predictions, site);
}

}  // namespace

StepMetrics::StepMetrics(Metrics metrics) : all_(std::move(metrics)) {
  for (const auto& metric : all_) {
    require(metric != nullptr, [] { return "TrainStep::add_up: a metric is null"; });
    if (is_of_operators(*metric))
      of_operators_.push_back(static_cast<metric::SumMetric*>(metric.get()));
  }
}

void StepMetrics::trace(const NDArray& labels, const StepResult& result) const {
  const autograd::PauseScope pause;
  for (metric::SumMetric* const metric : of_operators_) {
    const bool of_losses = is_of_losses(*metric);
    metric->add_in_place(
        metric->measured(of_losses ? result.losses : labels, of_losses ? result.losses : result.predictions));
  }
}

void StepMetrics::finish(const NDArray& labels, const StepResult& result, SourceLocation site) const {
  for (const auto& metric : all_) {
    const auto known = std::find(of_operators_.begin(), of_operators_.end(), metric.get());
    if (known == of_operators_.end())
      update_one(*metric, labels, result, site);
    else
      (*known)->count_up(is_of_losses(*metric) ? result.losses.size() : labels.size());
  }
}

void StepMetrics::update(const NDArray& labels, const StepResult& result, SourceLocation site) const {
  for (const auto& metric : all_)
    update_one(*metric, labels, result, site);
}

std::vector<NDArray> StepMetrics::sums() const {
  std::vector<NDArray> all;
  for (const metric::SumMetric* const metric : of_operators_)
    all.push_back(metric->stays_put_ ? metric->sums_ : NDArray());
  return all;
}

}  // namespace sluice::gluon::detail
