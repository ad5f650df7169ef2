#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
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
    Sums before = {};       // what that one saw of it
  };
  /// `every`: seconds between lines where stdout is no terminal; 0 = a line a step. `pace` must outlive this.
  Progress(const Epoch& epoch, double every, const Pace& pace);

  /// After each step; never waits for anything.
  void step();
  /// Results of the epoch so far have been read. Before the first ones the line holds "-" in their place.
  void show(const Sums& sums);
  /// Of the steps whose results have been read, an earlier process included; none before the first.
  std::optional<double> images_per_second() const { return images_per_second_; }
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
  Sums sums_;
  std::optional<double> images_per_second_;
  Clock::time_point drawn_ = Clock::now();
};

}  // namespace samples
