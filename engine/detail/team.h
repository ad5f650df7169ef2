#pragma once

#include <atomic>
#include <functional>
#include <sys/types.h>

#include <sluice/engine/detail/runner.h>

namespace sluice::detail {

/// The one caller of libraries that bring a team of threads of their own (OpenMP), so that the process has one team at
/// work. A team belongs to the thread that first uses it, and its threads compute for ever as that one did then, so
/// bodies that flush denormals have a thread, and with it a team, apart from those that do not. A thread is made when
/// it is first needed and never ended; a forked child makes its own.
class TeamThread {
 public:
  static TeamThread& instance();

  /// True if the caller may now call run(), until it calls release(). False if another has the team, or no thread can
  /// be made for it.
  bool try_acquire(bool flush_denormals) noexcept;
  void release() noexcept { holder_.store(0, std::memory_order_release); }
  /// The thread that was given work last, if any was.
  static Runner runner() noexcept;
  /// Runs `work`, which must not throw, on the team's thread; the caller rests until it is done.
  void run(bool flush_denormals, const std::function<void()>& work);

 private:
  struct Caller;

  TeamThread() = default;
  bool take(pid_t process) noexcept;
  bool start(Caller*& caller, pid_t process, bool flush_denormals) noexcept;

  std::atomic<pid_t> holder_{0};             // the process whose task has the team: a fork leaves the parent's behind
  Caller* callers_[2] = {nullptr, nullptr};  // of bodies that keep denormals, of those that flush them; the holder's
};

}  // namespace sluice::detail
