#pragma once

#include <cstdint>
#include <deque>

#include <sluice/sluice.h>

#include "samples/support/progress.h"

namespace samples {

/// Looks at some steps' losses and accuracies without making the training wait: values are read when several later
/// steps have been queued. It also keeps the host from running far ahead of the work, which would hold the memory
/// of many steps at once.
class LossWatch {
 public:
  /// Every `interval`-th step is looked at, and the first `print` steps' losses are printed as `loss STEP VALUE`.
  LossWatch(sluice::Device device, int print);

  void begin_epoch(std::int64_t steps);
  void step(
      const sluice::NDArray& losses,
      const sluice::NDArray& labels,
      const sluice::NDArray& predictions,
      Progress& progress);
  /// Reads what is left.
  void finish(Progress& progress);

 private:
  struct Seen {
    std::int64_t step;
    bool print;
    sluice::NDArray mean_loss, hits;
    std::int64_t images;
  };
  void read_oldest(Progress& progress);

  std::size_t ahead_;  // steps that the host may be ahead of
  int print_;
  std::int64_t step_ = 0, step_in_epoch_ = 0, interval_ = 1;
  double loss_sum_ = 0, hits_sum_ = 0;
  std::int64_t losses_ = 0, images_ = 0;
  std::deque<Seen> seen_;
  std::deque<sluice::NDArray> running_;
};

}  // namespace samples
