#pragma once

#include <atomic>
#include <functional>
#include <sys/types.h>
#include <vector>

#include <sluice/engine/detail/float_mode.h>
#include <sluice/engine/detail/runner.h>

namespace sluice::detail {

/// The one caller of libraries that bring a team of threads of their own (OpenMP), so that the process has one team at
/// work. A team belongs to the thread that first uses it, and its threads compute for ever as that one did then, so
/// each way to compute, as bodies that flush denormals have one of their own, has a thread, and with it a team, apart.
/// A thread is made when it is first needed and never ended; a forked child makes its own.
class TeamThread {
 public:
  static TeamThread& instance();

  /// True if the caller may now call run(), until it calls release(). False if another has the team, or no thread can
  /// be made for it.
  bool try_acquire(FloatMode mode) noexcept;
  void release() noexcept { holder_.store(0, std::memory_order_release); }
  /// The thread that was given work last, if any was.
  static Runner runner() noexcept;
  /// Runs `work`, which must not throw, on the team's thread; the caller rests until it is done.
  void run(const std::function<void()>& work);

 private:
  struct Caller;

  TeamThread() = default;
  bool take(pid_t process) noexcept;
  bool start(pid_t process, FloatMode mode) noexcept;

  std::atomic<pid_t> holder_{0};  // the process whose task has the team: a fork leaves the parent's behind
  // The holder's: the caller that it works with, and all that there are.
  Caller* current_ = nullptr;
  std::vector<Caller*> callers_;
};

}  // namespace sluice::detail
