#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace samples {

/// What an epoch looks like from outside: on a terminal a bar that is redrawn ten times a second, otherwise one line
/// when it is over.
class Progress {
 public:
  Progress(int epoch, int epochs, std::int64_t steps);

  /// After each step; never waits for anything.
  void step(std::int64_t images);
  void show(double mean_loss, double accuracy) {
    loss_ = mean_loss;
    accuracy_ = accuracy;
  }
  /// The epoch's last line. `validation` is an accuracy; negative = none.
  void finish(double validation);
  /// Stops the clock: what follows is not training.
  void stop_clock();
  /// Makes room for other output.
  void clear_line() const;

 private:
  using Clock = std::chrono::steady_clock;
  double images_per_second() const;
  std::string figures() const;
  void draw() const;

  bool terminal_;
  std::string title_;
  std::int64_t steps_, done_ = 0, images_ = 0;
  double loss_ = 0, accuracy_ = 0;
  Clock::time_point start_ = Clock::now(), drawn_ = start_, stop_{};
};

}  // namespace samples
