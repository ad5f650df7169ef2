#pragma once

#include <atomic>
#include <cstdint>

#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/task.h>
#include <sluice/engine/var.h>

namespace sluice::detail {

class Core;
struct TaskNode;
struct VarCore;

/// One access of one task, queued in its Var until it is granted.
struct AccessNode {
  VarCore* var = nullptr;
  AccessNode* next = nullptr;
  TaskNode* task = nullptr;
  AccessMode mode = AccessMode::read;

  bool exclusive() const noexcept { return mode != AccessMode::read; }
};

/// How a Var stands; changed under its lock only.
enum class VarMode : std::uint8_t {
  idle,            // nothing granted, nothing queued
  reading_open,    // readers active, nothing queued: a further read joins
  reading_closed,  // readers active, something queued: everything queues
  writing,         // a writer, or a thread that holds the right to advance
};

/// The two-list protocol. Pushers append to the inbox under the lock; whoever holds the right to advance owns `run`,
/// a private list that it fills from the inbox. A node is in no list once it was granted.
struct VarCore {
  SpinLock lock;
  VarMode mode = VarMode::idle;
  bool orphan = false;  // no handle is left: whoever makes it idle retires it
  AccessNode* inbox_head = nullptr;
  AccessNode* inbox_tail = nullptr;
  std::atomic<int> readers{0};

  // Owned by the holder of the right to advance (a granted writer has it); read by granted readers.
  AccessNode* run = nullptr;
  Poison poison;
  Position written_at;
  PositionSet read_at;  // merged under the lock by readers that finish

  std::atomic<std::uint64_t> version{0};
  std::atomic<int> handles{1};
  std::uint64_t id = 0;
  Core* core = nullptr;
  Device home;
  RetireHook* on_retire = nullptr;
  VarCore* next_free = nullptr;
};

}  // namespace sluice::detail
