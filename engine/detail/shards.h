#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <sluice/engine/detail/fence.h>
#include <sluice/engine/detail/thread_slot.h>

namespace sluice::detail {

/// A number that grows. In a slot that one thread owns it is stored, not added to: no locked instruction.
class Count {
 public:
  void add(bool owned, std::uint64_t by = 1) noexcept {
#if defined(__SANITIZE_THREAD__)
    owned = false;
#endif
    if (owned) [[likely]] {
      value_.store(value_.load(std::memory_order_relaxed) + by, std::memory_order_release);
    } else {
      value_.fetch_add(by, std::memory_order_seq_cst);
    }
  }
  std::uint64_t get() const noexcept {
    return value_.load(std::memory_order_seq_cst);
  }
  std::atomic<std::uint64_t>& word() noexcept {
    return value_;
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// What an engine counts, one line a thread slot. Counts only grow.
struct alignas(64) CountShard {
  std::array<Count, 2> entered;  // tasks pushed, by epoch
  std::array<Count, 2> left;     // tasks finished, by epoch
  Count skipped;
  Count failed;
  std::atomic<int> inside{0};  // threads (one, in an owned slot) that change lists of Vars now; nested calls count too
  Count refused;               // entered and left without ever being pushed
  Count waits;
  std::atomic<std::int64_t> spare_bytes{0};  // of host memory in flight: not told to InFlight yet; only in owned slots
};
/// Of CountShard::inside. In an owned slot that is a store, too.
inline void count_inside(std::atomic<int>& inside, bool owned, int by) noexcept {
#if defined(__SANITIZE_THREAD__)
  owned = false;
#endif
  if (owned) [[likely]] {
    inside.store(inside.load(std::memory_order_relaxed) + by, std::memory_order_release);
  } else {
    inside.fetch_add(by, std::memory_order_seq_cst);
  }
}
using Counts = std::array<CountShard, k_slots>;

}  // namespace sluice::detail
