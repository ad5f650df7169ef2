#pragma once

#include <atomic>
#include <chrono>
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
};
using AtomicRunner = std::atomic<Runner>;
static_assert(AtomicRunner::is_always_lock_free);

}  // namespace sluice::detail
