#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include <sluice/engine/closure.h>
#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/var_core.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>

namespace sluice::detail {

class CoroutineControl;
struct WaitRecord;

/// body: a user's task. look: no body; notes the error and the positions of its Var for whoever waits.
/// tell: a look that tells a Completion. clear: makes its Vars clean.
enum class TaskKind : std::uint8_t { body, look, tell, clear };

struct TraceRecord;

/// What a task leaves to those who wait for it, where there is something to leave.
struct TaskResult {
  FailureRef failure;
  PositionSet positions;
};

/// A pushed task from push to retirement, and as long as a handle names it. Five cache lines with up to four Vars and
/// a body of up to 64 bytes, which holds for nearly all tasks.
struct alignas(64) TaskNode {
  static constexpr int k_inline_accesses = 4;

  // Bits of `state`; above them the generation, which tells the tasks that use this node one after the other apart.
  static constexpr std::uint32_t k_started = 1;    // somebody has taken it to run or to skip it
  static constexpr std::uint32_t k_cancelled = 2;  // before it started
  static constexpr std::uint32_t k_finished = 4;
  static constexpr std::uint32_t k_handle = 8;   // a handle names it
  static constexpr std::uint32_t k_waiter = 16;  // a thread sleeps on `state`
  static constexpr std::uint32_t k_twice = 32;   // lies in a second queue too, because it became more urgent
  static constexpr std::uint32_t k_stop = 64;    // asked to stop while it runs
  static constexpr int k_generation_shift = 8;

  // The first three lines are all that a task with up to four Vars and a small body needs.
  std::atomic<std::uint32_t> state{0};
  std::atomic<int> waiting{0};  // accesses not granted yet, plus one while pushing
  TaskNode* next = nullptr;     // in a ready queue, a stream's list or the free list
  Core* core = nullptr;
  const char* name = "";
  const char* file = "";
  int line = 0;
  Device device;
  std::uint16_t access_count = 0;
  std::uint16_t access_room = 0;  // of the block
  std::uint16_t threads = 1;
  TaskKind kind = TaskKind::body;
  std::atomic<Priority> priority{Priority::normal};
  OnFailedInput on_failed_input = OnFailedInput::skip;
  StreamKind stream = StreamKind::compute;
  bool legacy_stream : 1 = false;
  bool capturable : 1 = false;
  std::uint8_t epoch = 0;
  std::atomic<bool> submitted{false};  // lies ready in a queue of the CPU policy
  bool extras = false;                 // something below the body is in use
  std::uint8_t era = 0;                // of the engine, which a fork moves on
  bool traced = false;

  alignas(64) AccessNode accesses_in_place[k_inline_accesses];
  Closure body;

  std::uint64_t push_number = 0;
  AccessNode* access_block = nullptr;  // used when access_room says so
  std::unique_ptr<TaskResult> result;
  Position position;
  std::stop_token stop;
  TaskNode* next_boosted = nullptr;
  TraceRecord* trace = nullptr;                       // where `traced`
  WaitRecord* told = nullptr;                         // of a tell
  std::atomic<CoroutineControl*> coroutine{nullptr};  // of a body that has made one

  std::span<AccessNode> accesses() noexcept {
    return {access_room == 0 ? accesses_in_place : access_block, access_count};
  }
  std::span<const AccessNode> accesses() const noexcept {
    return {access_room == 0 ? accesses_in_place : access_block, access_count};
  }
  SourceLocation site() const noexcept { return {file, line}; }
  bool finished() const noexcept { return (state.load(std::memory_order_acquire) & k_finished) != 0; }
  bool has_coroutine() const noexcept { return extras && coroutine.load(std::memory_order_relaxed) != nullptr; }
  FailureRef failure() const noexcept { return result == nullptr ? nullptr : result->failure; }
  TaskResult& need_result() {
    extras = true;
    if (result == nullptr)
      result = std::make_unique<TaskResult>();
    return *result;
  }
  std::atomic<int>& submitted_fence() noexcept { return waiting; }
  static std::uint32_t generation(std::uint32_t state) noexcept { return state >> k_generation_shift; }
};
static_assert(sizeof(TaskNode) <= 320);

}  // namespace sluice::detail
