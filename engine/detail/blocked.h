#pragma once

namespace sluice::detail {

class CoroutineControl;
struct TaskBelow;
struct TaskNode;

/// A body that waits, and for what: on the stack of the thread that waits, or in a suspended coroutine.
struct Blocked {
  TaskNode* task = nullptr;
  TaskNode* awaited = nullptr;
  const TaskBelow* below = nullptr;       // bodies that wait under it on the same stack go on when it has ended
  CoroutineControl* coroutine = nullptr;  // that is suspended: no thread looks out for it
  bool looked_at = false;                 // since all were
  bool listed = false;
  Blocked* next = nullptr;
  Blocked* before = nullptr;
};

/// All of an engine, newest first. Guarded by whoever holds it.
class BlockedList {
 public:
  Blocked* first() const noexcept { return first_; }
  void add(Blocked& blocked) noexcept {
    blocked.before = nullptr;
    blocked.next = first_;
    if (first_ != nullptr)
      first_->before = &blocked;
    first_ = &blocked;
    blocked.listed = true;
  }
  void remove(Blocked& blocked) noexcept {
    blocked.listed = false;
    (blocked.before == nullptr ? first_ : blocked.before->next) = blocked.next;
    if (blocked.next != nullptr)
      blocked.next->before = blocked.before;
  }
  void clear() noexcept { first_ = nullptr; }

 private:
  Blocked* first_ = nullptr;
};

}  // namespace sluice::detail
