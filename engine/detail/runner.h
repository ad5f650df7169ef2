#pragma once

#include <atomic>
#include <chrono>
#include <string_view>
#include <sys/types.h>

namespace sluice::detail {

/// A thread that runs bodies, as others look at it: whether it is at work. Nobody for zeros.
struct Runner {
  clockid_t clock = 0;  // of the CPU time that it uses
  pid_t thread = 0;

  static Runner here() noexcept;
  /// A thread that was made and has not begun: it wants a core.
  static constexpr Runner to_come() noexcept { return {0, -1}; }
  /// Nothing for a thread that has ended.
  std::chrono::nanoseconds cpu_time() const noexcept;
  /// On a core, waiting for one, or for a disk; as far as the system tells.
  bool is_runnable() const noexcept;
  /// The same of any thread of the process, but for this one, that is called "sluice-team" or `name`-NUMBER. Threads
  /// are called as the one that made them, so those are found that a library or a body has made on one of ours.
  static bool any_runnable_of(std::string_view name) noexcept;
};
using AtomicRunner = std::atomic<Runner>;
static_assert(AtomicRunner::is_always_lock_free);

}  // namespace sluice::detail
