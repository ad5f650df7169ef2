#include <mutex>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_serial.h>

namespace sluice::detail {

void SerialPolicy::submit(TaskNode* task) {
  const std::lock_guard hold(lock_);
  task->next = nullptr;
  (tail_ == nullptr ? head_ : tail_->next) = task;
  tail_ = task;
}

TaskNode* SerialPolicy::take() {
  const std::lock_guard hold(lock_);
  TaskNode* task = head_;
  if (task != nullptr)
    head_ = task->next;
  if (head_ == nullptr)
    tail_ = nullptr;
  return task;
}

// A task that waits for one it pushed itself can only be served on its own stack here.
void SerialPolicy::drain() {
  runner_.store(Runner::here(), std::memory_order_relaxed);
  while (TaskNode* task = take()) {
    if (Core::claim(task))
      core_.run_on_cpu(task, 1);
  }
}

void SerialPolicy::while_waiting() {
  return this_thread().core == &core_ ? drain() : after_push();
}

void SerialPolicy::after_push() {
  if (this_thread().core == &core_)
    return;  // inside a task: the outermost push drains
  for (;;) {
    {
      const std::lock_guard hold(lock_);
      if (draining_ || head_ == nullptr)
        return;
      draining_ = true;
    }
    drain();
    const std::lock_guard hold(lock_);
    draining_ = false;
  }
}

}  // namespace sluice::detail
