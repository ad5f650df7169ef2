#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <stop_token>

#include <sluice/engine/closure.h>
#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/var_core.h>
#include <sluice/engine/origin.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>

namespace sluice::detail {

struct CommuteRun;
struct CommuteSet;
class CompletionControl;
class CoroutineControl;
class GroupState;
struct WaitRecord;

/// body: a user's task. The others have none. probe: notes the error and the positions of its Var for whoever waits.
/// async_probe: the same, and tells a WaitObserver. clear: makes its Vars clean.
enum class TaskKind : std::uint8_t { body, probe, async_probe, clear };

struct TraceRecord;

/// What a task leaves to those who wait for it, where there is something to leave.
struct TaskResult {
  FailureRef failure;
  PositionSet positions;
  Position written_at;    // of a probe: who wrote the value that it waits for,
  std::uint64_t var = 0;  // in which Var
};

/// What few tasks have, in a recycled block of its own. The thread that has the task makes it: who pushes it, runs it,
/// finishes it.
struct TaskExtras {
  TaskResult result;
  std::stop_token stop;
  TaskName name;                         // where it is counted: the node's points to its text
  TraceRecord* trace = nullptr;          // where `traced`
  std::uint64_t bytes = 0, work = 0;     // Task's, where `traced`
  GroupState* group = nullptr;           // whose member it is; referred to
  GroupState* awaited_group = nullptr;   // of a probe
  bool has_place = false;                // of a group with a limit
  std::atomic<bool> wants_place{false};  // lies in that group's queue
  WaitRecord* wait_record = nullptr;     // of an async_probe
  CommuteSet* commutes_on = nullptr;
  CommuteRun* commute_run = nullptr;                    // whose writer it is
  std::atomic<CoroutineControl*> coroutine{nullptr};    // of a body that has made one
  std::atomic<CompletionControl*> completion{nullptr};  // of a body that has left its end to others
};
static_assert(sizeof(TaskExtras) <= 256);  // the second of the blocks
/// Of all tasks that fail and find no memory for extras: `result.failure` is no_memory_failure(). Nobody changes them.
/// The first call may throw std::bad_alloc.
TaskExtras& no_memory_extras();

bool asked_to_stop(const TaskExtras& extras) noexcept;

/// What a task is, in one word: written whole when the task is made, and not once others know it. No field crosses a
/// byte.
struct TaskMarks {
  static constexpr int k_last_line = (1 << 19) - 1;
  int line : 20 = 0;                  // its complement where `place` holds
  bool commutes : 1 = false;          // on some Var; or is the writer of a run
  bool blocked_accesses : 1 = false;  // `access_block` holds
  bool capturable : 1 = false;
  bool legacy_stream : 1 = false;
  TaskKind kind : 2 = TaskKind::body;
  OnFailedInput on_failed_input : 1 = OnFailedInput::skip;
  StreamKind stream : 2 = StreamKind::compute;
  bool flush_denormals : 1 = false;
  bool traced : 1 = false;
  std::uint8_t epoch : 1 = 0;
};
static_assert(sizeof(TaskMarks) == 4);

/// A pushed task from push to retirement, and as long as a handle names it. Four cache lines with up to four Vars and
/// a body of up to 64 bytes, which holds for nearly all tasks; the first three are enough where the body has up to 16.
struct alignas(64) TaskNode : TaskMarks {
  static constexpr int k_inline_accesses = 4;

  // Bits of `state`; above them the generation, which tells the tasks that use this node one after the other apart.
  static constexpr std::uint32_t k_started = 1;    // somebody has taken it to run or to skip it
  static constexpr std::uint32_t k_cancelled = 2;  // before it started
  static constexpr std::uint32_t k_finished = 4;
  static constexpr std::uint32_t k_handle = 8;   // a handle names it
  static constexpr std::uint32_t k_waiter = 16;  // a thread sleeps on `state`
  static constexpr std::uint32_t k_twice =
      32;                                      // one more claims it than it lies ready: it became urgent, or is awaited
  static constexpr std::uint32_t k_stop = 64;  // asked to stop while it runs
  static constexpr std::uint32_t k_ahead = 128;  // with k_twice: claimed out of turn, it still lies linked by `next`
  static constexpr int k_generation_shift = 8;

  /// Accesses that do not fit in place.
  struct AccessBlock {
    AccessNode* first;
    std::size_t room;
  };

  std::atomic<std::uint32_t> state{0};
  TaskNode* next = nullptr;  // in a ready queue, a stream's list or the free list
  Core* core = nullptr;
  const char* name = "";
  union {
    const char* file = "";
    const Origin::Place* place;
  };
  union {
    std::uint64_t push_number;
    Position position = {};  // of a GPU task that has finished
  };
  std::atomic<int> waiting{0};  // accesses not granted yet, plus one while pushing
  Device device;
  std::uint16_t access_count = 0;
  std::uint16_t threads = 1;
  std::atomic<Priority> priority{Priority::normal};
  std::atomic<bool> submitted{false};   // lies ready, or lay, in a queue of the CPU policy
  std::uint8_t era = 0;                 // of the engine, which a fork moves on
  std::atomic<bool> has_extras{false};  // `extras_there` holds

  union {
    AccessNode accesses_in_place[k_inline_accesses] = {};
    AccessBlock access_block;
  };
  Closure body;
  TaskExtras* extras_there = nullptr;
  TaskNode* next_boosted = nullptr;

  std::span<AccessNode> accesses() noexcept {
    return {blocked_accesses ? access_block.first : accesses_in_place, access_count};
  }
  std::span<const AccessNode> accesses() const noexcept {
    return {blocked_accesses ? access_block.first : accesses_in_place, access_count};
  }
  SourceLocation site() const noexcept {
    return line >= 0 ? SourceLocation{file, line} : SourceLocation{place->file, ~line, place->origin};
  }
  std::uint32_t origin() const noexcept { return line >= 0 ? 0 : place->origin; }
  bool finished() const noexcept { return (state.load(std::memory_order_acquire) & k_finished) != 0; }
  /// Null if there are none. Anybody may ask who may look at the task.
  TaskExtras* extras() const noexcept { return has_extras.load(std::memory_order_acquire) ? extras_there : nullptr; }
  /// Only for the thread that has the task. Throws std::bad_alloc.
  TaskExtras& need_extras() {
    if (!has_extras.load(std::memory_order_relaxed)) {
      extras_there = ::new (take_block(sizeof(TaskExtras))) TaskExtras;
      has_extras.store(true, std::memory_order_release);
    }
    return *extras_there;
  }
  /// The same for who must not fail: without memory, those of all tasks that fail so, which only say that.
  TaskExtras& extras_at_any_rate() noexcept;
  CoroutineControl* coroutine() const noexcept {
    const TaskExtras* there = extras();
    return there == nullptr ? nullptr : there->coroutine.load(std::memory_order_acquire);
  }
  CompletionControl* completion() const noexcept {
    const TaskExtras* there = extras();
    return there == nullptr ? nullptr : there->completion.load(std::memory_order_acquire);
  }
  FailureRef failure() const noexcept { return extras() == nullptr ? nullptr : extras()->result.failure; }
  bool wants_place() const noexcept {
    return extras() != nullptr && extras()->wants_place.load(std::memory_order_acquire);
  }
  bool has_place() const noexcept { return extras() != nullptr && extras()->has_place; }
  GroupState* group() const noexcept { return extras() == nullptr ? nullptr : extras()->group; }
  /// Its own token, or its group's.
  bool token_says_stop() const noexcept { return extras() != nullptr && asked_to_stop(*extras()); }
  std::atomic<int>& submitted_fence() noexcept { return waiting; }
  static std::uint32_t generation(std::uint32_t state) noexcept { return state >> k_generation_shift; }
};
static_assert(sizeof(TaskNode) == 256);

}  // namespace sluice::detail
