#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/metric.h>
#include <sluice/ndarray/ndarray.h>

/// Gluon's metrics beside Accuracy: of errors, of probabilities, sets of metrics. Those of classes: class_metrics.h.
namespace sluice::gluon::metric {

/// Mean |label - prediction| over all elements (Gluon's MAE). Labels have the predictions' shape, or as many elements.
class SLUICE_API MAE : public SumMetric {
 public:
  explicit MAE(std::string name = "mae") : SumMetric(std::move(name)) {}

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override { return sums[0] / count; }
};

/// Mean (label - prediction)^2 over all elements (Gluon's MSE).
class SLUICE_API MSE : public SumMetric {
 public:
  explicit MSE(std::string name = "mse") : SumMetric(std::move(name)) {}

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override { return sums[0] / count; }
};

/// The root of MSE over all batches (Gluon's RMSE).
class SLUICE_API RMSE : public MSE {
 public:
  explicit RMSE(std::string name = "rmse") : MSE(std::move(name)) {}

 protected:
  double figure(std::span<const double> sums, double count) const override;
};

/// Of MeanPairwiseDistance.
struct PairwiseDistanceOptions {
  double p = 2;  // of the norm
  std::string name = "mpd";
};

/// Mean over samples of the p-norm of label - prediction along the last axis (Gluon's MeanPairwiseDistance).
class SLUICE_API MeanPairwiseDistance : public SumMetric {
 public:
  /// Throws ValueError unless p is positive.
  explicit MeanPairwiseDistance(PairwiseDistanceOptions options = {});

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override;

 private:
  double p_;
};

/// Of MeanCosineSimilarity.
struct CosineSimilarityOptions {
  double eps = 1e-12;  // lengths are this at least
  std::string name = "cos_sim";
};

/// Mean over samples of the cosine between label and prediction along the last axis (Gluon's MeanCosineSimilarity).
class SLUICE_API MeanCosineSimilarity : public SumMetric {
 public:
  explicit MeanCosineSimilarity(CosineSimilarityOptions options = {})
      : SumMetric(std::move(options.name)), eps_(options.eps) {}

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override;

 private:
  double eps_;
};

/// Of CrossEntropy and Perplexity.
struct CrossEntropyOptions {
  std::optional<std::int64_t> ignore_label = {};  // labels that do not count
  int axis = -1;                                  // of the classes
  double eps = 1e-12;                             // probabilities are this at least
  bool from_logits = false;                       // predictions are before a softmax, in place of probabilities
  std::string name = "";                          // default: "cross-entropy" or "perplexity"
};

/// Mean -log(prediction[label]) over labels that are not ignored (Gluon's CrossEntropy, which was NegativeLogLikelihood
/// too); NaN if all are. A class outside the axis is an IndexError at the wait.
class SLUICE_API CrossEntropy : public SumMetric {
 public:
  explicit CrossEntropy(CrossEntropyOptions options = {}) : CrossEntropy(std::move(options), "cross-entropy") {}

 protected:
  CrossEntropy(CrossEntropyOptions options, const char* name);
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double /*count*/) const override { return sums[0] / sums[1]; }

 private:
  CrossEntropyOptions options_;
};

/// exp of CrossEntropy over all batches (Gluon's Perplexity).
class SLUICE_API Perplexity : public CrossEntropy {
 public:
  explicit Perplexity(CrossEntropyOptions options = {}) : CrossEntropy(std::move(options), "perplexity") {}

 protected:
  double figure(std::span<const double> sums, double count) const override;
};

/// Correlation of all labels with all predictions (Pearson; Gluon's PearsonCorrelation); NaN where either never
/// changes. Sums are of differences from the first batch's means, so that a large common part does not cancel.
class SLUICE_API PearsonCorrelation : public SumMetric {
 public:
  explicit PearsonCorrelation(std::string name = "pearsonr") : SumMetric(std::move(name)) {}
  void reset() override;
  State state() const override;
  void load_state(const State& state) override;

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override;

 private:
  NDArray label_origin_, prediction_origin_;
};

/// Mean of losses, which are the predictions.
class SLUICE_API Loss : public SumMetric {
 public:
  explicit Loss(std::string name = "loss") : SumMetric(std::move(name)) {}
  using Metric::update;
  /// Adds the losses of a batch.
  void update(const NDArray& losses, SourceLocation site = SourceLocation::current()) { update(losses, losses, site); }

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override { return sums[0] / count; }
};

/// A metric of one's own without a class: `sum_of(labels, predictions)` of each batch, an array of one element; their
/// sum divided by the number of labels (Gluon's CustomMetric, whose function gives a mean).
class SLUICE_API Custom : public SumMetric {
 public:
  using SumOf = std::function<NDArray(const NDArray& labels, const NDArray& predictions)>;
  /// Throws ValueError for an empty function.
  Custom(std::string name, SumOf sum_of);

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override { return sums[0] / count; }

 private:
  SumOf sum_of_;
};

/// Several metrics of the same batches (Gluon's CompositeEvalMetric). get() gives the first one's figure, get_all()
/// all. Where one throws at an update, those before it have added the batch.
class SLUICE_API Composite : public Metric {
 public:
  /// Throws ValueError for none, and for null.
  explicit Composite(std::vector<std::shared_ptr<Metric>> metrics, std::string name = "composite");

  std::vector<Figure> get_all(SourceLocation site = SourceLocation::current()) const override;
  void reset() override;
  State state() const override;
  void load_state(const State& state) override;

 private:
  void add(const NDArray& labels, const NDArray& predictions) override;
  double value(SourceLocation site) const override;

  std::vector<std::shared_ptr<Metric>> metrics_;
};

}  // namespace sluice::gluon::metric
