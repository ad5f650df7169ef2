#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <sluice/sluice.h>

#include "samples/support/divergence.h"
#include "samples/support/history.h"
#include "samples/support/progress.h"

namespace samples {

/// The losses and hits of every step of an epoch, without making the training wait: results of some steps are put
/// together on their device, and read when as many later steps have been queued.
class StepSums {
 public:
  /// `print`: the first so many losses of this process are printed as `loss STEP VALUE`, where the first step is 1.
  /// `step`: steps that earlier processes did. `watch` must outlive this.
  StepSums(sluice::Device device, std::int64_t step, int print, DivergenceWatch& watch);

  /// `so_far`: what an earlier process saw of the epoch.
  void begin_epoch(const Sums& so_far) { sums_ = so_far; }
  /// Losses (n,), labels (n,) and predictions (n, classes) of one step. Throws Diverged of an earlier one.
  void step(
      const sluice::NDArray& losses,
      const sluice::NDArray& labels,
      const sluice::NDArray& predictions,
      Progress& progress);
  /// Reads what is left. The host waits.
  void finish(Progress& progress);
  const Sums& sums() const { return sums_; }
  /// Steps of this process whose results have been read.
  std::int64_t steps_read() const { return step_ - first_step_; }

 private:
  // Steps of one batch size, put together.
  struct Group {
    sluice::NDArray losses, hits;
    std::int64_t steps, batch;
  };
  void close_group();
  void read_oldest(Progress& progress);

  std::size_t group_steps_;
  std::int64_t step_;  // the last that was read
  std::int64_t first_step_;
  std::int64_t print_until_;
  DivergenceWatch& watch_;
  Sums sums_;
  std::vector<sluice::NDArray> losses_, labels_, predictions_;  // of the group that is open
  std::deque<Group> groups_;
};

}  // namespace samples
