#include <mutex>
#include <thread>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_serial.h>
#include <sluice/engine/detail/stack_left.h>

namespace sluice::detail {

void SerialPolicy::submit(TaskNode* task) noexcept {
  const std::lock_guard hold(lock_);
  task->next = nullptr;
  (tail_ == nullptr ? head_ : tail_->next) = task;
  tail_ = task;
}

// With the lock held.
TaskNode* SerialPolicy::pop() {
  TaskNode* task = head_;
  if (task != nullptr)
    head_ = task->next;
  if (head_ == nullptr)
    tail_ = nullptr;
  return task;
}

TaskNode* SerialPolicy::take() {
  const std::lock_guard hold(lock_);
  return pop();
}

// A task that waits for one it pushed itself can only be served on its own stack here.
void SerialPolicy::drain() {
  if (stack_is_used_up())
    return;
  const OnTop on_top(this_thread());
  runner_.store(Runner::here(), std::memory_order_relaxed);
  while (TaskNode* task = take()) {
    if (Core::claim(task))
      core_.run_on_cpu(task, 1);
  }
}

void SerialPolicy::while_waiting() {
  return has_turn() ? drain() : after_push();
}

// True in a body of this engine, be it below one of another engine, that waits.
bool SerialPolicy::has_turn() {
  const ThisThread& here = this_thread();
  const std::lock_guard hold(lock_);
  return here.core == &core_ || turn_ == &here;
}

int SerialPolicy::all_blocked() {
  const std::lock_guard hold(lock_);
  return head_ != nullptr && stack_is_used_up() ? k_out_of_stack : 0;
}

// Taking the first task and becoming the one who runs for all is one step, so is finding none and ceasing to be: a
// task costs three turns of the lock.
TaskNode* SerialPolicy::begin_draining() {
  const std::lock_guard hold(lock_);
  if (turn_ != nullptr || head_ == nullptr)
    return nullptr;
  turn_ = &this_thread();
  return pop();
}

TaskNode* SerialPolicy::take_or_end_draining() {
  const std::lock_guard hold(lock_);
  TaskNode* task = pop();
  if (task == nullptr)
    turn_ = nullptr;
  return task;
}

// A body may have ended the engine: whoever ran it for all looks once more for tasks.
void SerialPolicy::stop() {
  for (;;) {
    {
      const std::lock_guard hold(lock_);
      if (turn_ == nullptr)
        return;
    }
    std::this_thread::yield();
  }
}

void SerialPolicy::after_push() {
  // Inside a task the outermost push drains. Where GPU work is issued nothing that bodies push would become ready.
  if (this_thread().core == &core_ || this_thread().draining)
    return;
  if (TaskNode* task = begin_draining())
    run_turn(task);
}

// One that has the turn runs `task` and all that lies ready after it.
void SerialPolicy::run_turn(TaskNode* task) {
  const OnTop on_top(this_thread());
  runner_.store(Runner::here(), std::memory_order_relaxed);
  for (; task != nullptr; task = take_or_end_draining()) {
    if (Core::claim(task))
      core_.run_on_cpu(task, 1);
  }
}

// First come, first served, one at a time: only where nothing lies ready and nobody runs anything.
bool SerialPolicy::begin_at_once() noexcept {
  const std::lock_guard hold(lock_);
  if (turn_ != nullptr || head_ != nullptr)
    return false;
  turn_ = &this_thread();
  return true;
}

void SerialPolicy::end_at_once() {
  if (TaskNode* task = take_or_end_draining()) [[unlikely]]  // pushed elsewhere meanwhile, or let in by this body's end
    run_turn(task);
}

}  // namespace sluice::detail
