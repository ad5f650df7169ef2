#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::test {

/// How long a test may go without a sign of progress: an assertion, a section or a case that begins or ends.
struct ProgressLimits {
  int quiet_seconds = 5;     // this long with next to no CPU time: worth a look; 0: never
  int idle_seconds = 60;     // this long with next to no CPU time: it waits for what never comes
  double idle_share = 0.05;  // of one core; idle workers that look up every millisecond stay well below
  double cpu_seconds = 300;  // this much CPU time: it turns in circles
};

/// Tells a program that hangs from one that is merely slow, by what it does and not by the clock on the wall: a machine
/// that stops it for minutes changes nothing, and one that gives it little CPU time makes a hang take longer to be
/// seen.
class ProgressJudge {
 public:
  enum class Verdict { going, idle, turning };

  explicit ProgressJudge(ProgressLimits limits) : limits_(limits) {}

  /// Called once a second that the program lives through. `steps` counts signs of progress, `cpu` the seconds of CPU
  /// time that the program and its children have used since they began, `delayed` those that its threads were ready in
  /// but had no processor: such a second is a tenth of one at least, as idle workers that look up are delayed as well.
  Verdict tick(std::uint64_t steps, double cpu, double delayed = 0) {
    became_quiet_ = false;
    const double second = 1 - std::clamp(delayed - delayed_, 0.0, 0.9);
    delayed_ = delayed;
    if (steps != steps_) {
      steps_ = steps;
      cpu_at_step_ = cpu_when_quiet_ = cpu;
      quiet_ticks_ = 0;
      was_quiet_ = false;
      begin_window(cpu);
      return Verdict::going;
    }
    look_for_quiet(cpu);
    if (cpu - cpu_at_step_ >= limits_.cpu_seconds)
      return Verdict::turning;
    if ((seconds_ += second) < limits_.idle_seconds)
      return Verdict::going;
    const bool idle = cpu - cpu_at_window_ < limits_.idle_share * limits_.idle_seconds;
    begin_window(cpu);
    return idle ? Verdict::idle : Verdict::going;
  }

  /// True after the one tick at which the test had done next to nothing for a while.
  bool became_quiet() const { return became_quiet_; }

 private:
  void look_for_quiet(double cpu) {
    if (was_quiet_ || limits_.quiet_seconds == 0 || ++quiet_ticks_ < limits_.quiet_seconds)
      return;
    became_quiet_ = was_quiet_ = cpu - cpu_when_quiet_ < limits_.idle_share * limits_.quiet_seconds;
    quiet_ticks_ = 0;
    cpu_when_quiet_ = cpu;
  }
  void begin_window(double cpu) {
    cpu_at_window_ = cpu;
    seconds_ = 0;
  }

  ProgressLimits limits_;
  std::uint64_t steps_ = ~std::uint64_t{0};
  double cpu_at_step_ = 0, cpu_at_window_ = 0, cpu_when_quiet_ = 0, delayed_ = 0, seconds_ = 0;
  int quiet_ticks_ = 0;
  bool was_quiet_ = false, became_quiet_ = false;
};

}  // namespace sluice::test
