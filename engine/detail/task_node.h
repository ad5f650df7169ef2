#pragma once

#include <atomic>
#include <cstdint>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/closure.h>
#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/var_core.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>

namespace sluice::detail {

enum class TaskState : std::uint32_t { queued, started, cancelled, finished };

/// body: a user's task. look: no body; notes the error and the positions of its Var for a waiting host thread.
/// clear: makes its Vars clean.
enum class TaskKind : std::uint8_t { body, look, clear };

/// A pushed task from push to retirement, and as long as a handle names it.
struct TaskNode {
  std::atomic<int> waiting{0};  // accesses not granted yet, plus one while pushing
  std::atomic<int> references{1};
  std::atomic<TaskState> state{TaskState::queued};
  TaskKind kind = TaskKind::body;
  Priority priority = Priority::normal;
  OnFailedInput on_failed_input = OnFailedInput::skip;
  StreamKind stream = StreamKind::compute;
  bool legacy_stream = false;
  std::uint8_t epoch = 0;
  int threads = 1;
  Device device;
  Core* core = nullptr;
  TaskNode* next = nullptr;  // in a ready queue, a stream's list or the free list
  const char* name = "";
  SourceLocation site;
  std::uint64_t push_number = 0;
  boost::container::small_vector<AccessNode, 4> accesses;
  Closure body;

  // Results, written before `state` becomes finished.
  FailureRef failure;
  PositionSet positions;  // GPU work that a waiting host thread must still wait for
};

}  // namespace sluice::detail
