#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/gluon/estimator/event_handler.h>

namespace sluice::gluon::estimator {

/// Which figures are better.
enum class MonitorMode : std::uint8_t {
  automatic,  // larger for accuracies, F scores, correlations and similarities, else smaller
  min,
  max,
};

/// A figure of the estimator that is watched.
struct MonitorOptions {
  std::string monitor = "validation loss";  // as Estimator::figure() knows it
  MonitorMode mode = MonitorMode::automatic;
  double min_delta = 0;  // what is better by no more than this is not better
};

/// The best of a figure so far. NaN is never better.
class SLUICE_API Monitor {
 public:
  /// Throws ValueError for a min_delta that is negative or not finite.
  explicit Monitor(MonitorOptions options);

  /// Forgets all; the first new figure has to be better than `baseline`, if there is one. Throws ValueError where the
  /// estimator has no such figure, and for one of validation where nothing in its fit() may validate.
  void begin(Estimator& estimator, std::optional<double> baseline = {});
  /// Whether there is a new figure: at the end of an epoch, and, of validation, after each.
  bool is_due(const Estimator& estimator, bool epoch_is_over) const;
  /// Looks at the figure, for which the host waits where it is of training; whether it is the best so far.
  bool is_better(Estimator& estimator);
  bool would_be_better(double value) const noexcept;

  double best() const noexcept { return best_; }
  double last() const noexcept { return last_; }
  const std::string& name() const noexcept { return options_.monitor; }
  bool is_of_validation() const noexcept { return options_.monitor.starts_with("validation "); }

  HandlerState state() const;
  /// Throws ValueError for a state that cannot be.
  void load_state(const HandlerState& state);

 private:
  MonitorOptions options_;
  bool larger_is_better_;
  double best_ = std::numeric_limits<double>::quiet_NaN(), last_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t validations_ = 0;  // that were looked at
};

/// Of an EarlyStoppingHandler.
struct EarlyStoppingOptions {
  std::string monitor = "validation loss";
  MonitorMode mode = MonitorMode::automatic;
  double min_delta = 0;
  std::int64_t patience = 0;            // figures in a row that may be no better; the next one ends training
  std::optional<double> baseline = {};  // the first figures have to be better than that
};

/// Ends training when a figure gets no better (Gluon's EarlyStoppingHandler): looked at after each epoch, a figure of
/// validation after each validation. With a patience of n it ends at the n-th figure in a row that is no better, 0
/// counting as 1.
class SLUICE_API EarlyStoppingHandler : public EventHandler {
 public:
  /// Throws ValueError for a negative patience, a baseline that is NaN, and as Monitor does.
  explicit EarlyStoppingHandler(EarlyStoppingOptions options = {});

  std::string name() const override { return "EarlyStoppingHandler"; }
  void train_begin(Estimator& estimator) override;
  void train_resumed(Estimator& estimator) override;
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
  void epoch_end(Estimator& estimator) override;
  HandlerState state() const override;
  void load_state(const HandlerState& state) override;

  double best() const noexcept { return monitor_.best(); }
  /// Figures in a row that were no better.
  std::int64_t waited() const noexcept { return waited_; }

 private:
  void look(Estimator& estimator, bool epoch_is_over);
  void stop(Estimator& estimator) const;

  EarlyStoppingOptions options_;
  Monitor monitor_;
  std::int64_t waited_ = 0;
};

}  // namespace sluice::gluon::estimator
