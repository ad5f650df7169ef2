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

void Accuracy::update(const NDArray& labels, const NDArray& predictions, SourceLocation site) {
  sluice::detail::located(site, [&] {
    const OriginScope scope(OriginScope::stamped(site));
    add(labels, predictions);
  });
}

void Accuracy::add(const NDArray& labels, const NDArray& predictions) {
  autograd::PauseScope pause;
  const bool classes = predictions.ndim() == labels.ndim() && predictions.shape() == labels.shape();
  const NDArray guesses =
      classes ? predictions : argmax(predictions, normal_axis(options_.axis, predictions.ndim(), "Accuracy"));
  require<ShapeError>(guesses.shape() == labels.shape(), [&] {
    return message("Accuracy: labels ", labels.shape(), " do not fit predictions ", predictions.shape());
  });
  const NDArray hits = sum(equal(guesses.astype(int64), labels.astype(int64)));
  if (!correct_.defined()) {
    correct_ = hits;
  } else {
    correct_ += correct_.device() == hits.device() ? hits : hits.to(correct_.device());
  }
  count_ += labels.size();
}

std::pair<std::string, double> Accuracy::get(SourceLocation site) const {
  if (count_ == 0)
    return {options_.name, std::numeric_limits<double>::quiet_NaN()};
  return {options_.name, static_cast<double>(correct_.item<std::int64_t>(site)) / static_cast<double>(count_)};
}

void Accuracy::reset() {
  correct_ = {};
  count_ = 0;
}

}  // namespace sluice::gluon::metric
