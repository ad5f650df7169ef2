#include <algorithm>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/metric.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/sink.h>

namespace sluice::gluon::metric {

using sluice::detail::unseen_shape;

namespace {
constexpr double k_nothing = -0.0;  // plus anything is that, to the last bit
}

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
  metric.count_up(labels.size());
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
  return {.count = count(), .arrays = {stays_put_ ? sums_.copy() : sums_}};
}

void SumMetric::load_state(const State& state) {
  check_state(state, 1);
  require(state.count == 0 || state.arrays[0].dtype() == float64, [&] {
    return message("metric: the sums of \"", name(), "\" are float64, not ", state.arrays[0].dtype());
  });
  Metric::load_state({.count = state.count, .arrays = {}});
  const autograd::PauseScope pause;
  if (stays_put_ && state.count == 0)
    fill(sums_, k_nothing);
  else if (stays_put_ && state.arrays[0].shape() == sums_.shape())
    copy_into(state.arrays[0], sums_);
  else
    sums_ = state.count == 0 ? NDArray() : state.arrays[0].copy();
}

void SumMetric::reset() {
  const autograd::PauseScope pause;
  if (stays_put_)
    fill(sums_, k_nothing);
  else
    sums_ = {};
  Metric::reset();
}

NDArray SumMetric::measured(const NDArray& labels, const NDArray& predictions) {
  const NDArray found = measure(labels, predictions).reshape({-1}).astype(float64);
  require<ShapeError>(count() == 0 || sums_.size() == found.size(), [&] {
    return message("metric: \"", name(), "\" has ", sums_.size(), " sums, a batch came with ", found.size());
  });
  return found;
}

// Also in a trace, which is of the sum alone.
void SumMetric::add_in_place(const NDArray& found) {
  if (!stays_put_ || sums_.size() != found.size() || sums_.device() != found.device()) {
    const CallSinkScope outside(nullptr);
    sums_ = count() == 0 ? full(found.shape(), k_nothing, {.dtype = float64, .device = found.device()})
                         : sums_.copy().to(found.device());
    stays_put_ = true;
  }
  copy_into(sums_ + found, sums_);
}

void SumMetric::add(const NDArray& labels, const NDArray& predictions) {
  const NDArray found = measured(labels, predictions);
  if (stays_put_)
    return add_in_place(found);
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

// Shapes are compared unseen: what a step is traced for holds for batches of other sizes.
NDArray Accuracy::measure(const NDArray& labels, const NDArray& predictions) {
  const Shape &wanted = unseen_shape(labels), &given = unseen_shape(predictions);
  require<IndexError>(given == wanted || (axis_ >= -given.ndim() && axis_ < given.ndim()), [&] {
    return message(
        "Accuracy: predictions ", given, " have no axis ", axis_, "; labels, here ", wanted, ", are given first");
  });
  const NDArray guesses =
      given == wanted ? predictions : argmax(predictions, normal_axis(axis_, given.ndim(), "Accuracy"));
  require<ShapeError>(unseen_shape(guesses) == wanted, [&] {
    return message("Accuracy: labels ", wanted, " do not fit predictions ", given);
  });
  return sum(equal(guesses.astype(int64), labels.astype(int64)));
}

}  // namespace sluice::gluon::metric
