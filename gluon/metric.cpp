#include <algorithm>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/metric.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::gluon::metric {

Metric::~Metric() = default;

void Metric::update(const NDArray& labels, const NDArray& predictions, SourceLocation site) {
  sluice::detail::located(site, [&] {
    const OriginScope scope(OriginScope::stamped(site));
    const autograd::PauseScope pause;
    add_to(*this, labels, predictions);
  });
}

void Metric::add_to(Metric& metric, const NDArray& labels, const NDArray& predictions) {
  metric.add(labels, predictions);
  metric.count_ += labels.size();
}

Figure Metric::get(SourceLocation site) const {
  return {name_, count_ == 0 ? std::numeric_limits<double>::quiet_NaN() : value(site)};
}

std::vector<Figure> Metric::get_all(SourceLocation site) const {
  return {get(site)};
}

void Metric::reset() {
  count_ = 0;
}

Metric::State Metric::state() const {
  return {.count = count_, .arrays = {}};
}

void Metric::load_state(const State& state) {
  check_state(state, 0);
  count_ = state.count;
}

void Metric::check_state(const State& state, std::size_t arrays) const {
  const std::size_t due = state.count == 0 ? 0 : arrays;
  const bool whole =
      std::all_of(state.arrays.begin(), state.arrays.end(), [](const NDArray& a) { return a.defined(); });
  require(state.count >= 0 && state.arrays.size() == due && whole, [&] {
    return message(
        "metric: a state of \"",
        name_,
        "\" that counts ",
        state.count,
        " labels has ",
        due,
        " arrays, not ",
        state.arrays.size());
  });
}

Metric::State SumMetric::state() const {
  if (count() == 0)
    return {};
  return {.count = count(), .arrays = {sums_}};
}

void SumMetric::load_state(const State& state) {
  check_state(state, 1);
  require(state.count == 0 || state.arrays[0].dtype() == float64, [&] {
    return message("metric: the sums of \"", name(), "\" are float64, not ", state.arrays[0].dtype());
  });
  Metric::load_state({.count = state.count, .arrays = {}});
  sums_ = state.count == 0 ? NDArray() : state.arrays[0];
}

void SumMetric::reset() {
  sums_ = {};
  Metric::reset();
}

void SumMetric::add(const NDArray& labels, const NDArray& predictions) {
  const NDArray found = measure(labels, predictions).reshape({-1}).astype(float64);
  require<ShapeError>(!sums_.defined() || sums_.size() == found.size(), [&] {
    return message("metric: \"", name(), "\" has ", sums_.size(), " sums, a batch came with ", found.size());
  });
  if (!sums_.defined())
    sums_ = found.copy();  // for a metric may hand out an array that it keeps, and writes
  else
    sums_ = sums_ + (sums_.device() == found.device() ? found : found.to(sums_.device()));
}

std::vector<double> SumMetric::sums(SourceLocation site) const {
  return sums_.defined() ? sums_.to_vector<double>(site) : std::vector<double>{};
}

double SumMetric::value(SourceLocation site) const {
  return figure(sums(site), static_cast<double>(count()));
}

NDArray Accuracy::measure(const NDArray& labels, const NDArray& predictions) {
  const bool classes = predictions.ndim() == labels.ndim() && predictions.shape() == labels.shape();
  const NDArray guesses =
      classes ? predictions : argmax(predictions, normal_axis(axis_, predictions.ndim(), "Accuracy"));
  require<ShapeError>(guesses.shape() == labels.shape(), [&] {
    return message("Accuracy: labels ", labels.shape(), " do not fit predictions ", predictions.shape());
  });
  return sum(equal(guesses.astype(int64), labels.astype(int64)));
}

}  // namespace sluice::gluon::metric
