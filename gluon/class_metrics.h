#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/metric.h>
#include <sluice/ndarray/ndarray.h>

/// Gluon's metrics of classes. Labels hold class indices. Predictions have one axis more, that of the classes, of which
/// the largest counts; or the labels' shape: then they are probabilities of class 1 of two.
namespace sluice::gluon::metric {

/// Of TopKAccuracy.
struct TopKAccuracyOptions {
  std::int64_t top_k = 1;
  int axis = -1;  // of the classes
  std::string name = "top_k_accuracy";
};

/// Share of samples whose label is among the `top_k` largest predictions (Gluon's TopKAccuracy); of equal ones the
/// first count. ValueError at an update for more than there are classes.
class SLUICE_API TopKAccuracy : public SumMetric {
 public:
  /// Throws ValueError unless top_k is positive.
  explicit TopKAccuracy(TopKAccuracyOptions options = {});

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override { return sums[0] / count; }

 private:
  TopKAccuracyOptions options_;
};

/// How predictions become classes.
struct ClassOptions {
  double threshold = 0.5;  // probabilities above it are class 1
  int axis = 1;            // of the classes
};

/// Metrics of how often class j was predicted where i is right. Labels that are no class do not count.
class SLUICE_API ConfusionSums : public SumMetric {
 protected:
  ConfusionSums(std::string name, ClassOptions options) : SumMetric(std::move(name)), options_(options) {}
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;

 private:
  ClassOptions options_;
};

/// Of ConfusionMatrix, BinaryAccuracy and MCC.
struct ConfusionOptions {
  ClassOptions classes = {};
  std::string name = "";  // default: "confusion", "binary_accuracy", "mcc" or "pcc"
};

/// How often class j was predicted where i is right. Its figure is the share of right ones.
class SLUICE_API ConfusionMatrix : public ConfusionSums {
 public:
  explicit ConfusionMatrix(ConfusionOptions options = {}) : ConfusionMatrix(std::move(options), "confusion") {}

  /// matrix()[i][j]; empty before the first update. The host waits.
  std::vector<std::vector<std::int64_t>> matrix(SourceLocation site = SourceLocation::current()) const;

 protected:
  ConfusionMatrix(ConfusionOptions options, const char* name);
  double figure(std::span<const double> sums, double count) const override;
};

/// Share of right ones of two classes (Gluon's BinaryAccuracy).
class SLUICE_API BinaryAccuracy : public ConfusionMatrix {
 public:
  explicit BinaryAccuracy(ConfusionOptions options = {}) : ConfusionMatrix(std::move(options), "binary_accuracy") {}
};

/// Matthews' correlation coefficient, of any number of classes (Matthews, 1975; Gorodkin, 2004, which Gluon has as
/// PCC): 1 where all are right, 0 where predictions tell nothing, as where labels or predictions are of one class
/// alone.
class SLUICE_API MCC : public ConfusionMatrix {
 public:
  explicit MCC(ConfusionOptions options = {}) : MCC(std::move(options), "mcc") {}

 protected:
  MCC(ConfusionOptions options, const char* name) : ConfusionMatrix(std::move(options), name) {}
  double figure(std::span<const double> sums, double count) const override;
};

/// MCC under the name that Gluon has for it of several classes.
class SLUICE_API PCC : public MCC {
 public:
  explicit PCC(ConfusionOptions options = {}) : MCC(std::move(options), "pcc") {}
};

/// How figures of classes become one.
enum class Average : std::uint8_t {
  positive,  // that of class 1 of two
  macro,     // their mean
  micro,     // one of all: for samples of one class each the share of right ones
};

/// Of Fbeta.
struct FbetaOptions {
  double beta = 1;  // how many times recall counts as much as precision
  Average average = Average::positive;
  ClassOptions classes = {};
  std::string name = "fbeta";
};

/// (1 + beta^2) precision recall / (beta^2 precision + recall) (van Rijsbergen, 1979; Gluon's Fbeta); 0 where neither a
/// label nor a prediction is of the class. With Average::positive a ValueError at an update of more classes than two.
class SLUICE_API Fbeta : public ConfusionSums {
 public:
  /// Throws ValueError unless beta is finite and positive.
  explicit Fbeta(FbetaOptions options = {});

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override;

 private:
  double beta_;
  Average average_;
};

/// Of F1.
struct F1Options {
  Average average = Average::positive;
  ClassOptions classes = {};
  std::string name = "f1";
};

/// Fbeta of beta 1 (Gluon's F1).
class SLUICE_API F1 : public Fbeta {
 public:
  explicit F1(F1Options options = {})
      : Fbeta({.average = options.average, .classes = options.classes, .name = std::move(options.name)}) {}
};

}  // namespace sluice::gluon::metric
