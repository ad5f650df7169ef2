#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace sluice::detail {

struct TaskNode;

/// A worker's ready tasks, first in, first out. The owner appends; owner and thieves take from the head. 64-bit
/// counters never wrap. A checker brings its
/// own `Task` and `Atomic`.
template <class Task, std::uint64_t Size, template <class> class Atomic>
class BasicRing {
 public:
  static constexpr std::uint64_t k_size = Size;

  /// Owner only. False if full.
  bool append(Task* task) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ >= k_size) {
      head_seen_ = head_.load(std::memory_order_acquire);
      if (tail - head_seen_ >= k_size)
        return false;
    }
    slots_[tail % k_size].store(task, std::memory_order_relaxed);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  Task* take() noexcept {
    Task* task = nullptr;
    return take_some(&task, 1) == 1 ? task : nullptr;
  }

  /// At most half of what there was at a look, and at most `limit`, into `out`.
  int steal(Task** out, int limit) noexcept {
    const std::uint64_t there = size();
    return there == 0 ? 0 : take_some(out, std::min<int>(limit, static_cast<int>((there + 1) / 2)));
  }

  /// What the owner will take `ahead` takes later, if nobody steals it: a hint, perhaps null or gone.
  TaskNode* peek(std::uint64_t ahead) const noexcept {
    const std::uint64_t at = head_.load(std::memory_order_relaxed) + ahead;
    return at < tail_.load(std::memory_order_relaxed) ? slots_[at % k_size].load(std::memory_order_relaxed) : nullptr;
  }

  std::uint64_t head() const noexcept { return head_.load(std::memory_order_relaxed); }

  std::uint64_t size() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    return tail > head ? tail - head : 0;
  }

 private:
  int take_some(Task** out, int limit) noexcept {
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t tail = tail_.load(std::memory_order_acquire);
      if (head >= tail)
        return 0;
      const auto count = std::min<std::uint64_t>(tail - head, static_cast<std::uint64_t>(limit));
      // Read before the claim: the owner reuses a slot only after the head has passed it.
      for (std::uint64_t i = 0; i < count; ++i)
        out[i] = slots_[(head + i) % k_size].load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, head + count, std::memory_order_acq_rel, std::memory_order_acquire))
        return static_cast<int>(count);
    }
  }

  alignas(64) Atomic<std::uint64_t> head_{0};
  alignas(64) Atomic<std::uint64_t> tail_{0};
  std::uint64_t head_seen_ = 0;
  alignas(64) std::array<Atomic<Task*>, k_size> slots_{};
};

using Ring = BasicRing<TaskNode, 2048, std::atomic>;

}  // namespace sluice::detail
