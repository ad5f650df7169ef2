#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "samples/support/history.h"
#include "samples/support/pace.h"

namespace samples {

/// What an epoch looks like from outside: on a terminal a line as wide as the window, redrawn ten times a second;
/// otherwise a line every so many seconds. At the end the figures of the whole epoch.
class Progress {
 public:
  struct Epoch {
    int number = 1, of = 1;
    std::int64_t steps = 0;
    std::int64_t done = 0;  // steps of it that an earlier process did
    std::int64_t images_before = 0;
  };
  /// `every`: seconds between lines where stdout is no terminal; 0 = a line a step. `pace` must outlive this.
  Progress(const Epoch& epoch, double every, const Pace& pace);

  /// After each step; never waits for anything.
  void step(std::int64_t images);
  void show(const Sums& sums) { sums_ = sums; }
  /// Of the epoch so far, an earlier process included.
  double images_per_second() const;
  /// The epoch's figures, in place of the line.
  void finish(const EpochRecord& record) const;
  /// The figures so far, in place of the line: the epoch ends here, unfinished.
  void stop() const;
  /// Removes the line, for other output.
  void clear_line() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string terminal_line(std::size_t room) const;
  std::string log_line() const;

  Epoch epoch_;
  double every_;
  const Pace& pace_;
  std::int64_t images_ = 0;
  Sums sums_;
  Clock::time_point drawn_ = Clock::now();
};

}  // namespace samples
