#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace samples {

/// The clock of a run: how far it is, how long its epoch was trained, and how long the rest may take.
class Pace {
 public:
  /// `todo`: steps of this process. `before`: seconds that an earlier process spent on the same run; `epoch_before`: on
  /// training the epoch that it left open.
  explicit Pace(std::int64_t todo = 0, double before = 0, double epoch_before = 0)
      : todo_(todo), before_(before), epoch_before_(epoch_before) {}

  /// `steps` of this process are done: their results have been read.
  void reach(std::int64_t steps) noexcept { done_ = steps; }
  /// From here to stop_training() seconds count as training of the epoch.
  void start_training() { training_since_ = Clock::now(); }
  void stop_training() {
    epoch_before_ = epoch_seconds();
    training_since_.reset();
  }
  /// Seconds of training the epoch so far.
  double epoch_seconds() const { return epoch_before_ + (training_since_ ? since(*training_since_) : 0); }
  void end_epoch() { epoch_before_ = 0; }
  /// Seconds since the run began.
  double elapsed() const { return before_ + here(); }
  /// Seconds, as the steps done let expect; none before the first.
  std::optional<double> left() const {
    if (done_ == 0)
      return std::nullopt;
    return here() / static_cast<double>(done_) * static_cast<double>(todo_ - done_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  double here() const { return since(start_); }

  std::int64_t todo_, done_ = 0;
  double before_, epoch_before_;
  Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> training_since_;
};

}  // namespace samples
