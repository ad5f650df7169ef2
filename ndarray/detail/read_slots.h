#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sluice/engine/position.h>

namespace sluice::detail {

class ReadSlots;

/// A place in memory that host and GPU both see, for one small read at a time: a kernel writes `data` and then, as the
/// last thing, `sequence` to `flag`.
struct ReadSlot {
  static constexpr std::size_t k_bytes = 4096;

  std::byte* data = nullptr;
  std::uint64_t* flag = nullptr;
  std::uint64_t sequence = 0;         // of this use; no other use of the slot has the same
  std::atomic<Position> position;     // of the kernel, set before it is launched
  std::atomic<bool> launched{false};  // the memory is the kernel's until the flag says otherwise
  ReadSlots* home = nullptr;
  std::atomic<int> holders{0};

  /// The kernel has written everything, and the caller sees it.
  bool landed() const noexcept {
    return std::atomic_ref<std::uint64_t>(*flag).load(std::memory_order_acquire) == sequence;
  }
  /// landed(), asked again and again for at most `limit`.
  bool spin_until_landed(std::chrono::nanoseconds limit) const noexcept;
};

/// One of those who use a slot: the task's body, or the thread that waits for it. The last one gives it back.
class ReadSlotRef {
 public:
  explicit ReadSlotRef(ReadSlot* adopted) noexcept : slot_(adopted) {}
  ReadSlotRef(ReadSlotRef&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  ReadSlotRef& operator=(ReadSlotRef&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~ReadSlotRef();
  ReadSlotRef share() const noexcept {
    slot_->holders.fetch_add(1, std::memory_order_relaxed);
    return ReadSlotRef(slot_);
  }
  ReadSlot* operator->() const noexcept { return slot_; }
  ReadSlot& operator*() const noexcept { return *slot_; }

 private:
  ReadSlot* slot_;
};

/// Slots, made by the dozen and used again and again. Any thread may take one. One whose kernel was launched and never
/// heard of is not handed out again.
class ReadSlots {
 public:
  using Allocate = void* (*)(std::size_t bytes);
  using Free = void (*)(void* memory) noexcept;
  ReadSlots(Allocate allocate, Free free) noexcept : allocate_(allocate), free_(free) {}
  ReadSlots(const ReadSlots&) = delete;
  ReadSlots& operator=(const ReadSlots&) = delete;
  /// All slots are back, and no kernel is under way.
  ~ReadSlots();

  /// Throws what `allocate` throws.
  ReadSlotRef take();
  /// Slots made so far.
  std::size_t count() const;

 private:
  friend class ReadSlotRef;
  void give_back(ReadSlot& slot) noexcept;
  void make_more();

  const Allocate allocate_;
  const Free free_;
  mutable std::mutex mutex_;
  std::vector<void*> slabs_;
  std::vector<std::unique_ptr<ReadSlot>> slots_;
  std::vector<ReadSlot*> idle_;
  std::uint64_t sequence_ = 0;
};

}  // namespace sluice::detail
