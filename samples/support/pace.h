#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace samples {

/// How far a run is, and how long the rest may take.
class Pace {
 public:
  /// `todo`: steps of this process. `before`: seconds that an earlier process spent on the same run.
  explicit Pace(std::int64_t todo = 0, double before = 0) : todo_(todo), before_(before) {}

  void step() noexcept { ++done_; }
  /// Seconds since the run began.
  double elapsed() const { return before_ + here(); }
  /// Seconds, as the steps so far let expect; none before the first.
  std::optional<double> left() const {
    if (done_ == 0)
      return std::nullopt;
    return here() / static_cast<double>(done_) * static_cast<double>(todo_ - done_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  double here() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  std::int64_t todo_, done_ = 0;
  double before_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace samples
