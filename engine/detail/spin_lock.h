#pragma once

#include <atomic>
#include <thread>

namespace sluice::detail {

inline void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Orders what was published before with what is looked at after, against a thread that does the reverse.
inline void full_fence([[maybe_unused]] std::atomic<int>& looked_at) noexcept {
#if defined(__SANITIZE_THREAD__)
  looked_at.fetch_add(0, std::memory_order_seq_cst);  // the sanitizer does not know fences
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// A lock of one byte for a few instructions of work; never held over user code or a CUDA call. After 64 failed
/// looks it yields, so that a holder that lost its core gets it back.
class SpinLock {
 public:
  void lock() noexcept {
    for (int looks = 0; locked_.exchange(true, std::memory_order_acquire);) {
      while (locked_.load(std::memory_order_relaxed)) {
        if (++looks < 64) {
          pause_briefly();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace sluice::detail
