#include <cmath>

#include <sluice/engine/error.h>
#include <sluice/gluon/class_metrics.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/order/count.h>
#include <sluice/operator/order/order.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::gluon::metric {

namespace {

/// A matrix of counts by its sums: what is right along rows, what was predicted along columns.
class Counts {
 public:
  explicit Counts(std::span<const double> sums)
      : sums_(sums), classes_(static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(sums.size()))))) {}

  std::size_t classes() const { return classes_; }
  double at(std::size_t right, std::size_t predicted) const { return sums_[right * classes_ + predicted]; }
  double labels(std::size_t of) const {
    double total = 0;
    for (std::size_t j = 0; j < classes_; ++j)
      total += at(of, j);
    return total;
  }
  double predictions(std::size_t of) const {
    double total = 0;
    for (std::size_t i = 0; i < classes_; ++i)
      total += at(i, of);
    return total;
  }
  double total() const {
    double all = 0;
    for (const double each : sums_)
      all += each;
    return all;
  }
  double right() const {
    double hits = 0;
    for (std::size_t i = 0; i < classes_; ++i)
      hits += at(i, i);
    return hits;
  }

 private:
  std::span<const double> sums_;
  std::size_t classes_;
};

/// Of true positives, labels and predictions; 0 where there are none of either.
double f_score(double hits, double labels, double predictions, double beta) {
  const double below = beta * beta * labels + predictions;
  return below == 0 ? 0 : (1 + beta * beta) * hits / below;
}

}  // namespace

TopKAccuracy::TopKAccuracy(TopKAccuracyOptions options) : SumMetric(options.name), options_(std::move(options)) {
  require(options_.top_k > 0, [&] { return message("TopKAccuracy: top_k must be positive, not ", options_.top_k); });
}

NDArray TopKAccuracy::measure(const NDArray& labels, const NDArray& predictions) {
  const Shape &of_labels = sluice::detail::unseen_shape(labels), &given = sluice::detail::unseen_shape(predictions);
  const int axis = normal_axis(options_.axis, given.ndim(), "TopKAccuracy");
  const NDArray found = topk(predictions, options_.top_k, axis).indices;
  Shape wanted;
  for (int i = 0; i < given.ndim(); ++i) {
    if (i != axis)
      wanted.push_back(given[i]);
  }
  require<ShapeError>(of_labels == wanted, [&] {
    return message("TopKAccuracy: labels ", of_labels, " do not fit predictions ", given);
  });
  return sum(equal(found, labels.astype(int64).expand_dims(axis)));
}

NDArray ConfusionSums::measure(const NDArray& labels, const NDArray& predictions) {
  const bool of_one = predictions.shape() == labels.shape();
  const int axis = of_one ? 0 : normal_axis(options_.axis, predictions.ndim(), name().c_str());
  const std::int64_t classes = of_one ? 2 : predictions.shape()[axis];
  const NDArray guesses = (of_one ? predictions > options_.threshold : argmax(predictions, axis)).astype(int64);
  require<ShapeError>(guesses.shape() == labels.shape(), [&] {
    return message(name(), ": labels ", labels.shape(), " do not fit predictions ", predictions.shape());
  });
  const NDArray right = labels.astype(int64);
  const NDArray known = logical_and(right >= 0, right < classes);
  return bincount(where(known, right * classes + guesses, -1), classes * classes);
}

ConfusionMatrix::ConfusionMatrix(ConfusionOptions options, const char* name)
    : ConfusionSums(options.name.empty() ? name : options.name, options.classes) {}

double ConfusionMatrix::figure(std::span<const double> sums, double /*count*/) const {
  const Counts counts(sums);
  return counts.right() / counts.total();
}

std::vector<std::vector<std::int64_t>> ConfusionMatrix::matrix(SourceLocation site) const {
  const std::vector<double> all = sums(site);
  const Counts counts(all);
  std::vector<std::vector<std::int64_t>> rows(counts.classes(), std::vector<std::int64_t>(counts.classes()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows.size(); ++j)
      rows[i][j] = static_cast<std::int64_t>(counts.at(i, j));
  }
  return rows;
}

double MCC::figure(std::span<const double> sums, double /*count*/) const {
  const Counts counts(sums);
  const double total = counts.total();
  double by_chance = 0, labels = 0, predictions = 0;
  for (std::size_t i = 0; i < counts.classes(); ++i) {
    by_chance += counts.labels(i) * counts.predictions(i);
    labels += counts.labels(i) * counts.labels(i);
    predictions += counts.predictions(i) * counts.predictions(i);
  }
  const double below = std::sqrt(total * total - labels) * std::sqrt(total * total - predictions);
  return below == 0 ? 0 : (counts.right() * total - by_chance) / below;
}

Fbeta::Fbeta(FbetaOptions options)
    : ConfusionSums(std::move(options.name), options.classes), beta_(options.beta), average_(options.average) {
  require(std::isfinite(beta_) && beta_ > 0, [&] {
    return message("Fbeta: beta must be finite and positive, not ", beta_);
  });
}

NDArray Fbeta::measure(const NDArray& labels, const NDArray& predictions) {
  NDArray counts = ConfusionSums::measure(labels, predictions);
  require(average_ != Average::positive || counts.size() == 4, [&] {
    return message(
        name(), ": predictions ", predictions.shape(), " are of more classes than two: say Average::macro or micro");
  });
  return counts;
}

double Fbeta::figure(std::span<const double> sums, double /*count*/) const {
  const Counts counts(sums);
  const auto of = [&](std::size_t i) {
    return f_score(counts.at(i, i), counts.labels(i), counts.predictions(i), beta_);
  };
  if (average_ == Average::positive)
    return of(1);
  if (average_ == Average::micro)
    return f_score(counts.right(), counts.total(), counts.total(), beta_);
  double total = 0;
  for (std::size_t i = 0; i < counts.classes(); ++i)
    total += of(i);
  return total / static_cast<double>(counts.classes());
}

}  // namespace sluice::gluon::metric
