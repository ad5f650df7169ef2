#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_chaos.h>
#include <sluice/engine/detail/stack_left.h>

namespace sluice::detail {

void ChaosPolicy::submit(TaskNode* task) noexcept {
  const std::lock_guard hold(lock_);
  task->next = nullptr;
  (tail_ == nullptr ? head_ : tail_->next) = task;
  tail_ = task;
  ++ready_;
}

TaskNode* ChaosPolicy::take() {
  const std::lock_guard hold(lock_);
  if (ready_ == 0)
    return nullptr;
  TaskNode* before = nullptr;
  TaskNode* task = head_;
  for (std::uint64_t at = random_.below(ready_); at > 0; --at) {
    before = task;
    task = task->next;
  }
  (before == nullptr ? head_ : before->next) = task->next;  // the order of the rest is part of the schedule
  if (task == tail_)
    tail_ = before;
  --ready_;
  return task;
}

void ChaosPolicy::run_some(std::uint64_t limit) {
  const OnTop on_top(this_thread());
  runner_.store(Runner::here(), std::memory_order_relaxed);
  for (; limit > 0; --limit) {
    TaskNode* task = take();
    if (task == nullptr)
      return;
    if (Core::claim(task))
      core_.run_on_cpu(task, 1);
  }
}

// True if this thread is the one that runs now. Inside a task the outermost push runs; where GPU work is issued nothing
// that bodies push would become ready.
bool ChaosPolicy::take_turn(bool everything) {
  if (this_thread().core == &core_ || this_thread().draining)
    return false;
  const std::lock_guard hold(lock_);
  everything_ = everything_ || everything;
  if (turn_ != nullptr || ready_ == 0)
    return false;
  turn_ = &this_thread();
  return true;
}

void ChaosPolicy::after_push() {
  if (!take_turn(false))
    return;
  std::uint64_t some = 0;
  {
    const std::lock_guard hold(lock_);
    some = random_.below(2) == 0 ? 0 : random_.below(ready_ + 1);
  }
  run_some(some);
  for (;;) {
    {
      const std::lock_guard hold(lock_);
      if (!everything_ || ready_ == 0) {
        everything_ = everything_ && ready_ > 0;
        turn_ = nullptr;
        return;
      }
    }
    run_some(~std::uint64_t{0});
  }
}

void ChaosPolicy::before_wait() {
  if (!take_turn(true))
    return;
  for (;;) {
    run_some(~std::uint64_t{0});
    const std::lock_guard hold(lock_);
    if (ready_ > 0)
      continue;
    everything_ = false;
    turn_ = nullptr;
    return;
  }
}

// A body may have ended the engine: whoever ran it for all looks once more for tasks.
void ChaosPolicy::stop() {
  for (;;) {
    {
      const std::lock_guard hold(lock_);
      if (turn_ == nullptr)
        return;
    }
    std::this_thread::yield();
  }
}

void ChaosPolicy::while_waiting() {
  return has_turn() ? before_block() : before_wait();
}

// True in a body of this engine, be it below one of another engine, that waits.
bool ChaosPolicy::has_turn() {
  const ThisThread& here = this_thread();
  const std::lock_guard hold(lock_);
  return here.core == &core_ || turn_ == &here;
}

// A task that waits for one it pushed itself can only be served on its own stack here.
void ChaosPolicy::before_block() {
  if (!stack_is_used_up())
    run_some(~std::uint64_t{0});
}

int ChaosPolicy::all_blocked() {
  const std::lock_guard hold(lock_);
  return ready_ > 0 && stack_is_used_up() ? k_out_of_stack : 0;
}

void ChaosPolicy::parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) {
  std::vector<std::int64_t> starts;
  const std::int64_t chunk = std::max(grain, (n + 7) / 8);
  for (std::int64_t begin = 0; begin < n; begin += chunk)
    starts.push_back(begin);
  ThisThread& here = this_thread();
  while (!starts.empty()) {
    std::uint64_t at = 0;
    {
      const std::lock_guard hold(lock_);
      at = random_.below(starts.size());
    }
    const std::int64_t begin = starts[at];
    starts.erase(starts.begin() + static_cast<std::ptrdiff_t>(at));
    const bool before = std::exchange(here.in_parallel, true);
    try {
      run(context, begin, std::min(begin + chunk, n));
    } catch (...) {
      here.in_parallel = before;
      throw;
    }
    here.in_parallel = before;
  }
}

}  // namespace sluice::detail
