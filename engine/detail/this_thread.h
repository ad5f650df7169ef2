#pragma once

#include <cstdint>

#include <sluice/engine/detail/float_mode.h>
#include <sluice/engine/detail/static_tls.h>
#include <sluice/engine/detail/thread_slot.h>

namespace sluice {
class Engine;
class GroupScope;
class OriginScope;
}  // namespace sluice

namespace sluice::detail {

class ApartScope;
class Core;
class CpuPolicy;
class RegionRecording;
struct TaskNode;

/// A task that waits on this thread while another one runs on top of it.
struct TaskBelow {
  TaskNode* task = nullptr;
  TaskBelow* next = nullptr;
  const void* looked_at_by = nullptr;  // the wait on top that has looked whether it has a place in its group
  bool gave_place = false;             // then
};

/// What runs on a thread and for whom. It changes as a whole (WorkScope), where a body begins or a loop is helped.
struct Work {
  Engine* scope = nullptr;              // innermost EngineScope
  const OriginScope* origin = nullptr;  // innermost
  Core* core = nullptr;                 // engine of the running task
  TaskNode* task = nullptr;             // running task
  std::uint32_t task_origin = 0;        // for whom what is pushed in no OriginScope is
  /// The task whose GPU body this is, if it is one: what is pushed meanwhile is not begun before it returns.
  const char* gpu_body = nullptr;
};

/// What the engine knows of this thread.
struct ThisThread : Work {
  TaskNode* ready_head = nullptr;  // ready tasks put off until the outermost grant on this thread returns
  TaskNode* ready_tail = nullptr;
  bool draining = false;
  int issued = 0;  // GPU tasks since then
  bool in_parallel = false;
  bool blocking = false;            // in a BlockingScope: another thread has its place
  std::uint32_t unseen_writes = 0;  // see unseen_writes.h
  void* pool_worker = nullptr;      // PoolPolicy's record of this thread
  CpuPolicy* pool = nullptr;        // whose worker it is
  bool pool_given = false;          // another thread has its place there: a body on it blocks
  unsigned pushes = 0;
  int leases = 0;                // GPUs that it issues for
  TaskBelow* below = nullptr;    // innermost first
  std::uint64_t body_ticks = 0;  // not 0: the next body is to be timed; then how long it took
  int slot = -1;                 // see thread_slot.h
  mutable int lists_depth = 0;   // calls of enter_lists() not left yet, of all engines: see RetireHook
  /// Not null: what this thread pushes is collected for a region.
  RegionRecording* recording = nullptr;
  const GroupScope* group_scope = nullptr;  // innermost
  const ApartScope* apart = nullptr;        // innermost
  ThreadMode mode = {};

  /// True if nobody else counts in this thread's slot.
  bool owns_slot() const noexcept { return slot != k_shared_slot; }
};
SLUICE_STATIC_TLS inline thread_local constinit ThisThread this_thread_state;
inline ThisThread& this_thread() noexcept {
  if (this_thread_state.slot < 0) [[unlikely]]
    this_thread_state.slot = take_thread_slot();
  return this_thread_state;
}

/// While it lives, the thread does that work.
class WorkScope {
 public:
  WorkScope(ThisThread& here, const Work& work) noexcept : here_(here), before_(here) { here_ = work; }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;
  ~WorkScope() { here_ = before_; }

 private:
  Work& here_;
  const Work before_;
};

/// While it lives, what begins on this thread runs on top of the body there, which waits or pushes.
class OnTop {
 public:
  explicit OnTop(ThisThread& here) noexcept
      : here_(here), below_{here.task, here.below}, in_parallel_(here.in_parallel), body_ticks_(here.body_ticks) {
    if (here.task == nullptr)
      return;
    here.below = &below_;
    here.in_parallel = false;
    here.body_ticks = 0;
  }
  OnTop(const OnTop&) = delete;
  OnTop& operator=(const OnTop&) = delete;
  ~OnTop() {
    here_.below = below_.next;
    here_.in_parallel = in_parallel_;
    here_.body_ticks = body_ticks_;
  }

 private:
  ThisThread& here_;
  TaskBelow below_;
  const bool in_parallel_;
  const std::uint64_t body_ticks_;
};

/// While it lives, the thread helps in a loop of another one: what a range pushes, waits for or is told to stop by is
/// what it would be there.
class LoopScope {
 public:
  LoopScope(ThisThread& here, const Work& caller) noexcept
      : here_(here), below_{here.task, here.below}, in_parallel_(here.in_parallel), work_(here, caller) {
    here_.in_parallel = true;
    if (below_.task != nullptr && below_.task != caller.task)
      here_.below = &below_;
  }
  LoopScope(const LoopScope&) = delete;
  LoopScope& operator=(const LoopScope&) = delete;
  ~LoopScope() {
    here_.below = below_.next;
    here_.in_parallel = in_parallel_;
  }

 private:
  ThisThread& here_;
  TaskBelow below_;
  const bool in_parallel_;
  const WorkScope work_;
};

}  // namespace sluice::detail
