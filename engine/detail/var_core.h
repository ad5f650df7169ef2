#pragma once

#include <atomic>
#include <cstdint>

#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/read_gate.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/var_protocol.h>
#include <sluice/engine/task.h>
#include <sluice/engine/var.h>

namespace sluice::detail {

class Core;
struct CommuteRun;
struct TaskNode;

/// One access of one task, queued in its Var until it is granted. The low bits of the task's address, which is a
/// multiple of 64, hold what else there is to say.
class AccessNode {
 public:
  VarCore* var = nullptr;
  AccessNode* next = nullptr;

  void set(VarCore* of_var, TaskNode* task, AccessMode mode) noexcept {
    var = of_var;
    bits_ = reinterpret_cast<std::uintptr_t>(task) | static_cast<std::uintptr_t>(mode);
  }
  TaskNode* task() const noexcept { return reinterpret_cast<TaskNode*>(bits_ & ~k_flags); }
  AccessMode mode() const noexcept { return static_cast<AccessMode>(bits_ & k_mode); }
  void set_mode(AccessMode mode) noexcept { bits_ = (bits_ & ~k_mode) | static_cast<std::uintptr_t>(mode); }
  bool exclusive() const noexcept { return mode() != AccessMode::read; }
  /// Granted by the Var's read gate.
  bool gated() const noexcept { return (shared_bits().load(std::memory_order_relaxed) & k_gated) != 0; }
  void set_gated(bool gated) noexcept { bits_ = gated ? bits_ | k_gated : bits_ & ~k_gated; }
  /// What stands before it in the Var is to be as urgent as its task. Set under the Var's lock, in the inbox.
  bool urges() const noexcept { return (bits_ & k_urges) != 0; }
  void set_urges() noexcept { shared_bits().store(bits_ | k_urges, std::memory_order_relaxed); }

 private:
  // Who urges one task looks at its other accesses without their Vars' locks.
  std::atomic_ref<std::uintptr_t> shared_bits() const noexcept {
    return std::atomic_ref(const_cast<std::uintptr_t&>(bits_));
  }

  static constexpr std::uintptr_t k_flags = 63, k_mode = 3, k_gated = 4, k_urges = 8;
  std::uintptr_t bits_ = 0;
};

/// What stands behind a Var. Pushers need the first line, tasks that end mostly the second: a chain of writers runs
/// while it is pushed without both sides meeting at every task.
struct alignas(64) VarCore {
  SpinLock lock;
  std::atomic<VarMode> mode{VarMode::idle};
  std::atomic<bool> gate_open{false};
  bool orphan = false;  // no handle is left: whoever makes it idle retires it
  std::atomic<int> readers{0};
  AccessNode* inbox_head = nullptr;
  AccessNode* inbox_tail = nullptr;
  Core* core = nullptr;
  /// The writer that came in when nobody else was there, with a tag of its generation.
  std::atomic<std::uint64_t> first_holder{0};
  std::atomic<bool> frozen{false};
  std::atomic<Priority> urgency{Priority::background};  // of the most urgent task that waits here
  std::uint16_t reads_in_a_row = 0;                     // under the lock
  std::uint32_t order = 0;                              // in which tasks lock their Vars: the low half of `id`
  ReadGate<std::atomic<std::uint64_t>>* gate = nullptr;
  std::uint8_t era = 0;                  // of the engine, which a fork moves on; under the lock
  std::atomic<std::uint16_t> urgers{0};  // accesses that wait here and urge
  std::uint32_t kibibytes = 0;           // of memory behind it

  // Owned by the holder of the right to advance (a granted writer has it); read by granted readers.
  alignas(64) AccessNode* run = nullptr;
  Poison poison;
  Position written_at;
  std::atomic<std::uint64_t> version{0};  // writes so far, and times k_failed_write those that failed or were skipped
  /// The writer that came in when others had left.
  std::atomic<std::uint64_t> next_holder{0};

  static constexpr std::uint64_t k_failed_write = std::uint64_t{1} << 48;
  /// For the task that has the Var to itself, before it leaves.
  void note_write(std::uint64_t counted) noexcept {
    version.store(version.load(std::memory_order_relaxed) + counted, std::memory_order_release);
  }

  std::uint64_t id = 0;
  union {
    VarCore* next_free = nullptr;
    CommuteRun* commuting;  // of one in use: the latest run of commuting accesses, until it is over; under the lock
  };
  RetireHook* on_retire = nullptr;
  PositionSet read_at;  // merged under the lock by readers that finish
  std::atomic<int> handles{1};
  Device home;

  /// By age, not by address: the same program locks, and wakes, in the same order again. Ages repeat after 2^32 Vars.
  bool comes_before(const VarCore& other) const noexcept {
    return order != other.order ? order < other.order : this < &other;
  }
  bool poisoned() const noexcept { return poison.holds(); }
};
static_assert(sizeof(VarCore) <= 192);

}  // namespace sluice::detail
