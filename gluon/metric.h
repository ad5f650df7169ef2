#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon::metric {

/// Of Accuracy.
struct AccuracyOptions {
  int axis = 1;  // of the classes
  std::string name = "accuracy";
};

/// Share of samples whose largest prediction is the label (Gluon's metric.Accuracy). Counts on the device of the
/// predictions: update() does not wait, get() does.
class SLUICE_API Accuracy {
 public:
  explicit Accuracy(AccuracyOptions options = {}) : options_(std::move(options)) {}

  /// Labels hold class indices; predictions have one axis more (the classes), or the labels' shape if they are
  /// class indices themselves. Throws ShapeError.
  void update(const NDArray& labels, const NDArray& predictions, SourceLocation site = SourceLocation::current());
  /// (name, share); NaN before the first update. The host waits.
  std::pair<std::string, double> get(SourceLocation site = SourceLocation::current()) const;
  void reset();
  /// Samples seen since the last reset.
  std::int64_t count() const noexcept { return count_; }

 private:
  void add(const NDArray& labels, const NDArray& predictions);

  AccuracyOptions options_;
  NDArray correct_;  // int64 scalar on the device
  std::int64_t count_ = 0;
};

}  // namespace sluice::gluon::metric
