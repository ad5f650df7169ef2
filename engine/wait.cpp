// Where the host blocks: for a Var, a task, everything, the GPU. And how the engine stops.
#include <chrono>

#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

[[noreturn]] void rethrow(const FailureRef& failure) {
  failure->record->reported.store(true);
  std::rethrow_exception(failure->exception);
}

}  // namespace

// -- wait_all's books --

int this_shard() noexcept {
  static std::atomic<int> next{0};
  static thread_local const int mine = next.fetch_add(1, std::memory_order_relaxed) % k_shards;
  return mine;
}

void Core::enter_epoch(TaskNode* task) {
  task->epoch = epoch_.load();
  counts_[static_cast<std::size_t>(this_shard())].entered[task->epoch].fetch_add(1);
}

void Core::admit(TaskNode* task) {
  enter_epoch(task);
  // Counted first, asked second: stop() sets the flag first and counts second, so no task slips between.
  if (!stopped_.load() || this_thread().core == this)
    return;
  const int epoch = task->epoch;
  const std::string name = task->name;
  task->body.reset();
  release_task(task);
  leave_epoch(epoch);
  throw EngineStopped("push: task \"" + name + "\" came after the engine stopped");
}

void Core::leave_epoch(int epoch) {
  // Counting and looking for a waiter pairs with announcing the wait and looking at the counts: one of the two sees.
  counts_[static_cast<std::size_t>(this_shard())].left[static_cast<std::size_t>(epoch)].fetch_add(1);
  if (drain_waiters_.load() == 0)
    return;
  // A worker looks again when it runs out of work; until then now and then is enough.
  ThisThread& here = this_thread();
  if (here.pool == nullptr || ++here.leaves % 64 == 0)
    let_waiters_look();
}

void Core::let_waiters_look() {
  if (drain_waiters_.load() == 0)
    return;
  const std::lock_guard hold(drained_mutex_);
  drained_.notify_all();
}

// Those who left are summed first: if as many had entered by the time those are summed, nobody was inside between.
bool Core::epoch_empty(std::uint8_t epoch) const noexcept {
  std::uint64_t left = 0;
  std::uint64_t entered = 0;
  for (const CountShard& shard : counts_)
    left += shard.left[epoch].load();
  for (const CountShard& shard : counts_)
    entered += shard.entered[epoch].load();
  return left == entered;
}

EngineCounters Core::counters() const noexcept {
  EngineCounters sum;
  for (const CountShard& shard : counts_) {
    sum.pushed += shard.entered[0].load() + shard.entered[1].load();
    sum.retired += shard.left[0].load() + shard.left[1].load();
    sum.skipped += shard.skipped.load();
    sum.failed += shard.failed.load();
  }
  sum.stream_waits = gpu() == nullptr ? 0 : gpu()->stream_waits();
  return sum;
}

void Core::drain_epoch() {
  const std::uint8_t old = epoch_.load();
  epoch_.store(old ^ 1);
  std::unique_lock hold(drained_mutex_);
  drain_waiters_.fetch_add(1);
  drained_.wait(hold, [&] { return epoch_empty(old); });
  drain_waiters_.fetch_sub(1);
}

// -- Waits --

void Core::refuse_self_wait(Access access) const {
  const ThisThread& here = this_thread();
  if (here.task == nullptr || here.core != this)
    return;
  for (const AccessNode& held : here.task->accesses) {
    if (held.var != access.var)
      continue;
    if (!held.exclusive() && access.mode == AccessMode::read) {
      const std::lock_guard hold(access.var->lock);
      if (access.var->mode == VarMode::reading_open)
        return;
    }
    throw Deadlock(message(
        "wait: task \"",
        here.task->name,
        "\" pushed at ",
        here.task->site.file,
        ":",
        here.task->site.line,
        " waits for a Var that it holds itself"));
  }
}

// What conflicts with a running task and has not finished comes after it.
void Core::refuse_child_wait(const TaskNode& child) const {
  const ThisThread& here = this_thread();
  if (here.task == nullptr || child.state.load(std::memory_order_acquire) == TaskState::finished)
    return;
  for (const AccessNode& held : here.task->accesses) {
    for (const AccessNode& wanted : child.accesses) {
      require<Deadlock>(held.var != wanted.var || !(held.exclusive() || wanted.exclusive()), [&] {
        return message("wait: task \"", here.task->name, "\" waits for \"", child.name, "\", which waits for it");
      });
    }
  }
}

void Core::block_until(TaskNode* task) {
  auto finished = [&] { return task->state.load(std::memory_order_acquire) == TaskState::finished; };
  for (int looks = 0; looks < 256 && !finished(); ++looks)
    pause_briefly();
  if (finished())
    return;
  const ThisThread& here = this_thread();
  const bool in_task = here.core == this && here.task != nullptr && here.task->device.is_cpu();
  if (in_task)
    cpu_->before_block();
  for (TaskState seen = task->state.load(std::memory_order_acquire); seen != TaskState::finished;
       seen = task->state.load(std::memory_order_acquire)) {
    task->state.wait(seen, std::memory_order_acquire);
  }
  if (in_task)
    cpu_->after_block();
}

void Core::wait(Access access) {
  require(access.var != nullptr, [] { return std::string("wait: an empty Var"); });
  require(access.var->core == this, [] { return std::string("wait: a Var of another engine"); });
  refuse_self_wait(access);
  if (access.mode == AccessMode::out)
    access.mode = AccessMode::write;
  TaskNode* look = make_task({.name = "wait", .access = {access}}, TaskKind::look, Closure(), {});
  push(look);
  cpu_->after_push();
  block_until(look);
  const PositionSet positions = look->positions;
  const FailureRef failure = look->failure;
  release_task(look);
  wait_positions(positions);
  if (failure != nullptr)
    rethrow(failure);
}

void Core::wait_positions(const PositionSet& positions) {
  if (!positions.empty() && gpu() != nullptr)
    gpu()->wait(positions);
}

void Core::wait_task(TaskNode* task) {
  require<Deadlock>(
      this_thread().task != task, [&] { return message("wait: task \"", task->name, "\" waits for itself"); });
  refuse_child_wait(*task);
  block_until(task);
  wait_positions(task->positions);
  rethrow_failure_of(*task);
}

void Core::rethrow_failure_of(const TaskNode& task) {
  if (task.failure != nullptr)
    rethrow(task.failure);
}

void Core::wait_all() {
  const ThisThread& here = this_thread();
  require<Deadlock>(here.task == nullptr || here.core != this, [&] {
    return message("wait_all: task \"", here.task->name, "\" would wait for itself");
  });
  cpu_->after_push();
  {
    const std::lock_guard one_at_a_time(wait_all_mutex_);
    drain_epoch();  // twice: a pusher may have counted into the epoch that it read before an earlier flip
    drain_epoch();
  }
  if (gpu() != nullptr)
    gpu()->wait_all();
  FailureRef first;
  {
    const std::lock_guard hold(failures_mutex_);
    std::erase_if(failures_, [](const FailureRef& failure) { return failure->record->reported.load(); });
    for (const FailureRef& failure : failures_) {
      if (first == nullptr || failure->record->push_number < first->record->push_number)
        first = failure;
    }
  }
  if (first != nullptr)
    rethrow(first);
}

void Core::clear_error(const Var& var) {
  const Access access = sluice::write(var);
  require(access.var != nullptr && access.var->core == this, [] {
    return std::string("clear_error: an empty Var, or one of another engine");
  });
  refuse_self_wait(access);
  TaskNode* clear = make_task({.name = "clear_error", .access = {access}}, TaskKind::clear, Closure(), {});
  push(clear);
  cpu_->after_push();
  block_until(clear);
  release_task(clear);
}

// -- The end --

void Core::stop(bool limited) {
  const ThisThread& here = this_thread();
  require<Deadlock>(limited || here.task == nullptr || here.core != this, [&] {
    return message("stop: task \"", here.task->name, "\" would wait for itself");
  });
  if (stopped_.exchange(true) && !limited)
    return;
  if (limited) {  // at exit of the process: whoever still runs is left behind after a while
    std::unique_lock hold(drained_mutex_);
    drain_waiters_.fetch_add(1);
    drained_.wait_for(hold, std::chrono::seconds(5), [&] { return epoch_empty(0) && epoch_empty(1); });
    drain_waiters_.fetch_sub(1);
    return;
  }
  cpu_->after_push();
  {
    const std::lock_guard one_at_a_time(wait_all_mutex_);
    drain_epoch();
    drain_epoch();
  }
  if (gpu() != nullptr) {
    try {
      gpu()->wait_all();
    } catch (const Error&) {  // nobody is left to hear it
    }
  }
  cpu_->stop();
  if (gpu() != nullptr)
    gpu()->stop();
}

}  // namespace sluice::detail
