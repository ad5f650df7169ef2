#pragma once

#include <atomic>

namespace sluice::detail {

/// A mutex in a word: where nobody else wants it, taking it and giving it up are an instruction each, in place. Who has
/// to wait sleeps (futexes are tricky: Drepper, 2005: his second mutex). Not fair.
class ShortMutex {
 public:
  ShortMutex() = default;
  ShortMutex(const ShortMutex&) = delete;
  ShortMutex& operator=(const ShortMutex&) = delete;
  ~ShortMutex() = default;

  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      lock_later();
  }
  bool try_lock() noexcept {
    int seen = k_free;
    return word_.compare_exchange_strong(seen, k_held, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (word_.exchange(k_free, std::memory_order_release) == k_wanted) [[unlikely]]
      word_.notify_one();
  }

 private:
  static constexpr int k_free = 0, k_held = 1, k_wanted = 2;  // k_wanted: held, and somebody may sleep

  void lock_later() noexcept;

  std::atomic<int> word_{k_free};
};

}  // namespace sluice::detail
