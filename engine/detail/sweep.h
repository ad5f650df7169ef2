#pragma once

#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

/// Tasks run ahead between two looks through a policy's queues, at least. What was run from elsewhere keeps its node
/// until it comes up there, which it may not for long where bodies only wait.
inline constexpr int k_sweep = 1024;

/// Takes what has finished out of a list linked by `next`. Returns it, linked likewise, and counts it in `taken`.
inline TaskNode* take_finished(TaskNode*& head, TaskNode*& tail, int& taken) noexcept {
  TaskNode* gone = nullptr;
  TaskNode** link = &head;
  tail = nullptr;
  while (TaskNode* const task = *link) {
    if ((task->state.load(std::memory_order_acquire) & TaskNode::k_finished) == 0) {
      tail = task;
      link = &task->next;
      continue;
    }
    *link = task->next;
    task->next = std::exchange(gone, task);
    ++taken;
  }
  return gone;
}

inline void forget(TaskNode* gone) noexcept {
  while (TaskNode* const task = gone) {
    gone = task->next;
    Core::claim(task);
  }
}

}  // namespace sluice::detail
