#pragma once

#include <atomic>
#include <thread>

namespace sluice::detail {

inline void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// What a thread does between two looks at a lock: after 64 it yields, so that a holder that lost its core gets it
/// back.
struct SpinRest {
  static void rest(int looks) noexcept {
    if (looks < 64) {
      pause_briefly();
    } else {
      std::this_thread::yield();
    }
  }
};

/// A lock of one byte for a few instructions of work; never held over user code or a CUDA call.
template <template <class> class Atomic, class Rest>
class BasicSpinLock {
 public:
  void lock() noexcept {
    for (int looks = 0; locked_.exchange(true, std::memory_order_acquire);) {
      while (locked_.load(std::memory_order_relaxed))
        Rest::rest(++looks);
    }
  }
  bool try_lock() noexcept { return !locked_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  Atomic<bool> locked_{false};
};
using SpinLock = BasicSpinLock<std::atomic, SpinRest>;

}  // namespace sluice::detail
