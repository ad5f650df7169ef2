#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon::detail {
class StepMetrics;
}

/// Metrics: figures of a model over many batches, added up on the device of the predictions, so that update() does not
/// make the host wait; get() does. All but Accuracy stand in gluon/metrics.h.
namespace sluice::gluon::metric {

/// A name and a figure.
using Figure = std::pair<std::string, double>;

/// What all metrics are (Gluon's EvalMetric). Not recorded. Not for several threads at once.
class SLUICE_API Metric {
 public:
  virtual ~Metric();

  /// Adds a batch. Throws ShapeError for labels that do not fit, and what the operators throw; then nothing was added.
  void update(const NDArray& labels, const NDArray& predictions, SourceLocation site = SourceLocation::current());
  /// (name, figure); NaN before the first update. The host waits.
  Figure get(SourceLocation site = SourceLocation::current()) const;
  /// The same of each that it consists of: itself, if it is not a Composite. The host waits.
  virtual std::vector<Figure> get_all(SourceLocation site = SourceLocation::current()) const;
  virtual void reset();
  const std::string& name() const noexcept { return name_; }
  /// Labels seen since the last reset.
  std::int64_t count() const noexcept { return count_; }

  /// What was added up since the last reset.
  struct State {
    std::int64_t count = 0;
    std::vector<NDArray> arrays = {};
  };
  /// A metric of the same kind and options goes on from it. Does not wait, but of a Composite. A metric of one's own
  /// that keeps more than the count overrides both.
  virtual State state() const;
  /// Throws ValueError, and changes nothing, for a state that is none of this metric's.
  virtual void load_state(const State& state);

 protected:
  explicit Metric(std::string name) : name_(std::move(name)) {}
  Metric(Metric&&) = default;
  Metric& operator=(Metric&&) = default;

  virtual void add(const NDArray& labels, const NDArray& predictions) = 0;
  /// The figure after one update at least.
  virtual double value(SourceLocation site) const = 0;
  /// What update() does, for a metric that consists of others.
  static void add_to(Metric& metric, const NDArray& labels, const NDArray& predictions);
  /// So many labels more.
  void count_up(std::int64_t labels) noexcept { count_ += labels; }
  /// Throws ValueError unless the state has a count that can be, and `arrays` arrays, or none where it counts nothing.
  void check_state(const State& state, std::size_t arrays) const;

 private:
  std::string name_;
  std::int64_t count_ = 0;
};

/// A metric whose figure is made of sums over all batches. One of one's own overrides measure() and figure().
class SLUICE_API SumMetric : public Metric {
 public:
  void reset() override;
  State state() const override;
  void load_state(const State& state) override;

 protected:
  explicit SumMetric(std::string name) : Metric(std::move(name)) {}
  SumMetric(SumMetric&&) = default;
  SumMetric& operator=(SumMetric&&) = default;

  /// What a batch adds to the sums: of any shape, the same each time, kept as float64.
  virtual NDArray measure(const NDArray& labels, const NDArray& predictions) = 0;
  /// Of the sums, and of how many labels they were.
  virtual double figure(std::span<const double> sums, double count) const = 0;
  /// The sums so far; the host waits. Empty before the first update.
  std::vector<double> sums(SourceLocation site) const;

 private:
  friend class gluon::detail::StepMetrics;
  NDArray measured(const NDArray& labels, const NDArray& predictions);
  void add(const NDArray& labels, const NDArray& predictions) final;
  void add_in_place(const NDArray& found);
  double value(SourceLocation site) const final;

  NDArray sums_;            // on the device
  bool stays_put_ = false;  // a TrainStep's plan writes these very sums
};

/// Of Accuracy.
struct AccuracyOptions {
  int axis = 1;  // of the classes
  std::string name = "accuracy";
};

/// Share of samples whose largest prediction is the label (Gluon's metric.Accuracy). Labels hold class indices;
/// predictions have one axis more (the classes), or the labels' shape if they are class indices themselves.
class SLUICE_API Accuracy : public SumMetric {
 public:
  explicit Accuracy(AccuracyOptions options = {}) : SumMetric(std::move(options.name)), axis_(options.axis) {}

 protected:
  NDArray measure(const NDArray& labels, const NDArray& predictions) override;
  double figure(std::span<const double> sums, double count) const override { return sums[0] / count; }

 private:
  int axis_;
};

}  // namespace sluice::gluon::metric
