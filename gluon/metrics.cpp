#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/labels.h>
#include <sluice/gluon/metrics.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/reduce/composed.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice::gluon::metric {

namespace {

/// label - prediction in float64, lest sums of many batches round.
NDArray errors(const NDArray& labels, const NDArray& predictions, std::string_view metric) {
  return detail::labels_like(predictions, labels, metric).astype(float64) - predictions.astype(float64);
}

/// Samples of which the sums are: all elements but those along the last axis.
NDArray rows_of(const NDArray& array) {
  return full({1}, static_cast<double>(array.size()), {.dtype = float64, .device = array.device()});
}

}  // namespace

NDArray MAE::measure(const NDArray& labels, const NDArray& predictions) {
  return sum(abs(errors(labels, predictions, "MAE")));
}

NDArray MSE::measure(const NDArray& labels, const NDArray& predictions) {
  return sum(square(errors(labels, predictions, "MSE")));
}

double RMSE::figure(std::span<const double> sums, double count) const {
  return std::sqrt(MSE::figure(sums, count));
}

MeanPairwiseDistance::MeanPairwiseDistance(PairwiseDistanceOptions options)
    : SumMetric(std::move(options.name)), p_(options.p) {
  require(p_ > 0, [&] { return message("MeanPairwiseDistance: p must be positive, not ", p_); });
}

NDArray MeanPairwiseDistance::measure(const NDArray& labels, const NDArray& predictions) {
  const NDArray distances = norm(errors(labels, predictions, "MeanPairwiseDistance"), p_, {-1});
  return concat({sum(distances).reshape({1}), rows_of(distances)}, 0);
}

double MeanPairwiseDistance::figure(std::span<const double> sums, double /*count*/) const {
  return sums[0] / sums[1];
}

NDArray MeanCosineSimilarity::measure(const NDArray& labels, const NDArray& predictions) {
  const NDArray a = detail::labels_like(predictions, labels, "MeanCosineSimilarity").astype(float64);
  const NDArray b = predictions.astype(float64);
  const auto length = [&](const NDArray& x) { return maximum(norm(x, 2, {-1}), eps_); };
  const NDArray cosines = sum(a * b, {-1}) / (length(a) * length(b));
  return concat({sum(cosines).reshape({1}), rows_of(cosines)}, 0);
}

double MeanCosineSimilarity::figure(std::span<const double> sums, double /*count*/) const {
  return sums[0] / sums[1];
}

CrossEntropy::CrossEntropy(CrossEntropyOptions options, const char* name)
    : SumMetric(options.name.empty() ? name : options.name), options_(std::move(options)) {}

NDArray CrossEntropy::measure(const NDArray& labels, const NDArray& predictions) {
  const NDArray at = labels.astype(int64);
  const NDArray counts = options_.ignore_label ? at != *options_.ignore_label : ones_like(at);
  // An ignored label need not be a class.
  const NDArray classes = options_.ignore_label ? where(counts, at, 0) : at;
  const NDArray wide = predictions.astype(float64);
  const NDArray logs =
      options_.from_logits
          ? maximum(pick(log_softmax(wide, options_.axis), classes, options_.axis), std::log(options_.eps))
          : log(maximum(pick(wide, classes, options_.axis), options_.eps));
  return concat({-sum(where(counts, logs, 0)).reshape({1}), sum(counts).astype(float64).reshape({1})}, 0);
}

double Perplexity::figure(std::span<const double> sums, double count) const {
  return std::exp(CrossEntropy::figure(sums, count));
}

void PearsonCorrelation::reset() {
  label_origin_ = prediction_origin_ = {};
  SumMetric::reset();
}

Metric::State PearsonCorrelation::state() const {
  State state = SumMetric::state();
  if (state.count > 0)
    state.arrays.insert(state.arrays.end(), {label_origin_, prediction_origin_});
  return state;
}

void PearsonCorrelation::load_state(const State& state) {
  check_state(state, 3);
  State sums = state;
  sums.arrays.resize(std::min<std::size_t>(sums.arrays.size(), 1));
  SumMetric::load_state(sums);
  label_origin_ = state.count == 0 ? NDArray() : state.arrays[1];
  prediction_origin_ = state.count == 0 ? NDArray() : state.arrays[2];
}

NDArray PearsonCorrelation::measure(const NDArray& labels, const NDArray& predictions) {
  NDArray y = detail::labels_like(predictions, labels, "PearsonCorrelation").astype(float64);
  NDArray x = predictions.astype(float64);
  if (!label_origin_.defined() && x.size() > 0) {  // nothing has no mean
    label_origin_ = mean(y);
    prediction_origin_ = mean(x);
  }
  const auto from = [](const NDArray& values, const NDArray& origin) {
    return !origin.defined() ? values
                             : values - (origin.device() == values.device() ? origin : origin.to(values.device()));
  };
  y = from(y, label_origin_);
  x = from(x, prediction_origin_);
  return stack({sum(x), sum(y), sum(square(x)), sum(square(y)), sum(x * y)}, 0);
}

double PearsonCorrelation::figure(std::span<const double> sums, double count) const {
  const double of_x = sums[2] - sums[0] * sums[0] / count, of_y = sums[3] - sums[1] * sums[1] / count;
  return (sums[4] - sums[0] * sums[1] / count) / std::sqrt(of_x * of_y);
}

NDArray Loss::measure(const NDArray& /*labels*/, const NDArray& predictions) {
  return sum(predictions.astype(float64));
}

Custom::Custom(std::string name, SumOf sum_of) : SumMetric(std::move(name)), sum_of_(std::move(sum_of)) {
  require(sum_of_ != nullptr, [] { return "metric::Custom: needs a function of labels and predictions"; });
}

NDArray Custom::measure(const NDArray& labels, const NDArray& predictions) {
  NDArray found = sum_of_(labels, predictions);
  require<ShapeError>(found.defined() && found.size() == 1, [&] {
    return message("metric::Custom: \"", name(), "\" must give one number a batch");
  });
  return found;
}

Composite::Composite(std::vector<std::shared_ptr<Metric>> metrics, std::string name)
    : Metric(std::move(name)), metrics_(std::move(metrics)) {
  require(!metrics_.empty(), [] { return "metric::Composite: needs a metric"; });
  for (const auto& metric : metrics_)
    require(metric != nullptr, [] { return "metric::Composite: a metric is null"; });
}

void Composite::add(const NDArray& labels, const NDArray& predictions) {
  for (const auto& metric : metrics_)
    add_to(*metric, labels, predictions);
}

double Composite::value(SourceLocation site) const {
  return metrics_.front()->get(site).second;
}

std::vector<Figure> Composite::get_all(SourceLocation site) const {
  std::vector<Figure> all;
  for (const auto& metric : metrics_) {
    const std::vector<Figure> more = metric->get_all(site);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// Each part's count and number of arrays, and then these.
Metric::State Composite::state() const {
  State all{.count = count(), .arrays = {}};
  for (const auto& metric : metrics_) {
    const State part = metric->state();
    all.arrays.push_back(array<std::int64_t>({part.count, std::ssize(part.arrays)}));
    all.arrays.insert(all.arrays.end(), part.arrays.begin(), part.arrays.end());
  }
  return all;
}

void Composite::load_state(const State& state) {
  std::vector<State> parts, before;
  std::size_t at = 0;
  for (const auto& metric : metrics_) {
    const bool counts = at < state.arrays.size() && state.arrays[at].defined() && state.arrays[at].size() == 2 &&
                        state.arrays[at].dtype() == int64;
    const auto numbers = counts ? state.arrays[at].to_vector<std::int64_t>() : std::vector<std::int64_t>{-1, -1};
    const std::int64_t left = std::ssize(state.arrays) - static_cast<std::int64_t>(at) - 1;
    require(numbers[1] >= 0 && numbers[1] <= left, [&] {
      return message("metric: a state of \"", name(), "\" lacks what \"", metric->name(), "\" had");
    });
    const auto first = state.arrays.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    parts.push_back({.count = numbers[0], .arrays = {first, first + numbers[1]}});
    at += 1 + static_cast<std::size_t>(numbers[1]);
    before.push_back(metric->state());
  }
  require(at == state.arrays.size(), [&] {
    return message("metric: a state of \"", name(), "\" is of ", at, " arrays, not ", state.arrays.size());
  });
  std::size_t loaded = 0;
  try {
    for (; loaded < parts.size(); ++loaded)
      metrics_[loaded]->load_state(parts[loaded]);
    Metric::load_state({.count = state.count, .arrays = {}});
  } catch (...) {
    while (loaded > 0) {
      --loaded;
      metrics_[loaded]->load_state(before[loaded]);
    }
    throw;
  }
}

void Composite::reset() {
  for (const auto& metric : metrics_)
    metric->reset();
  Metric::reset();
}

}  // namespace sluice::gluon::metric
