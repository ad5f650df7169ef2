// Where the host blocks: for a Var, a task, everything, the GPU.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/futex.h>
#include <sluice/engine/detail/group_state.h>
#include <sluice/engine/detail/through_engines.h>

namespace sluice::detail {

namespace {

constexpr std::chrono::nanoseconds k_for_ever = std::chrono::seconds(10);
constexpr std::chrono::nanoseconds k_look_again = std::chrono::milliseconds(1);
constexpr std::chrono::nanoseconds k_cycle_check = std::chrono::milliseconds(10);
constexpr std::chrono::nanoseconds k_long_wait = std::chrono::milliseconds(500);

std::chrono::nanoseconds longer(std::chrono::nanoseconds limit) noexcept {
  return std::min(2 * limit, k_for_ever);
}

struct HandleGuard {
  TaskNode* task;
  ~HandleGuard() { Core::drop(task, TaskNode::k_handle); }
};

}  // namespace

// A thread of an executor runs what that has for it, whichever engine's task waits on it.
bool Core::help_until(const std::function<bool()>& done, std::chrono::nanoseconds limit) {
  CpuPolicy* const own = this_thread().pool;
  return cpu_->help_until(done, limit) || (own != nullptr && own != cpu_.get() && own->help_until(done, limit));
}

// False if it was so at once.
bool Core::drain(const std::function<bool()>& is_done) {
  bool waited = false;
  const auto drained = [&] {
    const bool done = is_done();
    waited |= !done;
    return done;
  };
  if (drained())
    return false;
  const OtherEngineWaits left_idle(*this);
  for (auto limit = k_cycle_check; help_until(drained, limit); limit = longer(limit)) {
    if (drained())
      return waited;
    check_suspended();
  }
  const LeftToThisThread left(*this);
  const DrainWaiter waiter(*this);
  std::unique_lock hold(drained_mutex_);
  std::chrono::nanoseconds slept{}, next_check = k_cycle_check;
  const auto slice = std::min(left.slice(), k_look_again);
  while (!drained_.wait_for(hold, slice, drained)) {
    hold.unlock();
    left.run();
    slept += slice;
    if (slept >= next_check) {
      check_suspended();
      next_check = slept + longer(next_check);
    }
    hold.lock();
  }
  return waited;
}

// For the one that drains at a time: who waits for its turn may be the only thread that runs tasks.
void Core::take_turn() {
  bool mine = false;
  drain([&] { return mine = mine || wait_all_mutex_.try_lock(); });
}

bool Core::drain_epoch() {
  const std::uint8_t old = epoch_.load();
  epoch_.store(old ^ 1);
  return drain([&] { return epoch_empty(old); });
}

// -- Waits --

void throw_in_gpu_body(const char* what) {
  throw Deadlock(
      message(what, ": task \"", this_thread().gpu_body, "\" issues GPU work, and nothing else is begun meanwhile"));
}

void Core::refuse_self_wait(Access access) const {
  const ThisThread& here = this_thread();
  const auto refuse = [&](const TaskNode* holder) {
    if (holder == nullptr || holder->core != this)
      return;
    for (const AccessNode& held : holder->accesses()) {
      if (held.var != access.var)
        continue;
      if (!held.exclusive() && access.mode == AccessMode::read && access.var->mode.load() == VarMode::reading_open)
        return;
      const std::string who =
          message("wait: task \"", here.task->name, "\" (", describe(here.task->site()), ") waits for ");
      if (holder == here.task)
        throw Deadlock(who + "a Var that it holds itself");
      throw Deadlock(
          message(who, "a Var of \"", holder->name, "\" (", describe(holder->site()), "), on top of which it runs"));
    }
  };
  if (here.task == nullptr)
    return;
  refuse(here.task);
  for (const TaskBelow* below = here.below; below != nullptr; below = below->next)
    refuse(below->task);
}

// What conflicts with a running task and has not begun comes after it.
void Core::refuse_child_wait(const TaskNode& child) const {
  const ThisThread& here = this_thread();
  if (here.task == nullptr || (child.state.load(std::memory_order_acquire) & TaskNode::k_started) != 0)
    return;
  for (const AccessNode& held : here.task->accesses()) {
    for (const AccessNode& wanted : child.accesses()) {
      require<Deadlock>(held.var != wanted.var || !(held.exclusive() || wanted.exclusive()), [&] {
        return message("wait: task \"", here.task->name, "\" waits for \"", child.name, "\", which waits for it");
      });
    }
  }
}

void Core::block_until(TaskNode* task) {
  const ThisThread& here = this_thread();
  const bool in_task = here.core == this && here.task != nullptr && here.task->device.is_cpu();
  // Such a thread runs what it waits for; one that attached itself anything else too, which inside a task might wait
  // for that task.
  const bool works = (in_task && !here.blocking) || (here.task == nullptr && cpu_->works_here());
  for (int looks = 0; looks < 256 && !task->finished(); ++looks) {
    const bool looks_ahead = works && looks % 16 == 0;
    if ((looks_ahead && run_awaited(task)) || (here.task == nullptr && cpu_->help(1) > 0))
      looks = -1;
    else
      pause_briefly();
  }
  if (task->finished())
    return;
  count_wait();
  if (in_task)
    return block_in_task(here.task, task);
  const OtherEngineWaits left_idle(*this);
  const LeftToThisThread left(*this);
  for (auto limit = k_cycle_check; !sleep_on(task, std::min(limit, left.slice())); limit = longer(limit)) {
    left.run();
    check_suspended();
    while (here.task == nullptr && !task->finished() && cpu_->help(1) > 0) {
    }
  }
}

// True once the task has finished.
bool Core::sleep_on(TaskNode* task, std::chrono::nanoseconds limit) {
  if (help_until([task] { return task->finished(); }, limit))
    return task->finished();
  const std::uint32_t seen = task->state.fetch_or(TaskNode::k_waiter, std::memory_order_acq_rel);
  if ((seen & TaskNode::k_finished) == 0)
    futex_wait(task->state, seen | TaskNode::k_waiter, limit);
  return task->finished();
}

// A deadlock lasts, so it is looked for only after a while; the last one to close a circle finds it.
void Core::block_in_task(TaskNode* task, TaskNode* awaited) {
  Blocked blocked{.task = task, .awaited = awaited, .below = this_thread().below};
  {
    const std::lock_guard hold(blocked_mutex_);
    blocked_.add(blocked);
  }
  std::optional<GivenPlaces> places(std::in_place, *task);
  std::optional<GivenThread> thread(std::in_place, this_thread(), *cpu_);
  std::exception_ptr cycle;
  const LeftToThisThread left(*this);
  const auto began = std::chrono::steady_clock::now();
  for (auto limit = k_cycle_check; !sleep_on(awaited, std::min(limit, left.slice()));) {
    left.run();
    check_suspended();
    try {
      if (check_blocked(blocked, std::chrono::steady_clock::now() - began >= k_long_wait))
        limit = longer(limit);
    } catch (...) {
      cycle = std::current_exception();
      break;
    }
  }
  thread.reset();
  places.reset();
  {
    const std::lock_guard hold(blocked_mutex_);
    if (blocked.listed)
      blocked_.remove(blocked);
  }
  if (cycle != nullptr)
    std::rethrow_exception(cycle);
}

void Core::wait(Access access) {
  refuse_while_recording("wait");
  refuse_in_gpu_body("wait");
  require(access.var != nullptr, [] { return std::string("wait: an empty Var"); });
  require(access.var->core == this, [] { return std::string("wait: a Var of another engine"); });
  refuse_self_wait(access);
  if (access.mode != AccessMode::read)
    access.mode = AccessMode::write;
  wait_probe(make_bodiless(access, TaskKind::probe, "wait"));
}

void Core::wait_group(GroupState& group) {
  TaskNode* const probe = make_bodiless(group.awaited(), TaskKind::probe, "wait");
  try {
    probe->need_extras().awaited_group = &group;
  } catch (...) {
    discard(probe);
    drop(probe, TaskNode::k_handle);
    throw;
  }
  wait_probe(probe);
}

void Core::wait_probe(TaskNode* probe) {
  push(probe);
  cpu_->before_wait();
  const HandleGuard guard{probe};
  block_until(probe);
  if (const TaskExtras* extras = probe->extras()) {
    wait_positions(extras->result.positions);
    rethrow_any_failure_of(*probe);
  }
}

TaskNode* Core::make_bodiless(Access access, TaskKind kind, TaskName name) {
  return make_task({.name = std::move(name), .access = {access}}, kind, Closure(), {});
}

void Core::wait_positions(const PositionSet& positions) {
  if (positions.empty() || gpu() == nullptr)
    return;
  if (!passed(positions))
    count_wait();
  gpu()->wait(positions);
}

void Core::flush() {
  refuse_while_recording("flush");
  cpu_->before_wait();
  if (gpu() != nullptr)
    gpu()->flush();
}

void Core::note_completed(Position position) {
  if (!position || gpu() == nullptr)
    return;
  count_wait();
  gpu()->note_completed(position);
}

void Core::wait_task(TaskNode* task) {
  refuse_in_gpu_body("wait");
  require<Deadlock>(
      this_thread().task != task, [&] { return message("wait: task \"", task->name, "\" waits for itself"); });
  refuse_child_wait(*task);
  require<Forked>(task->finished() || task->era == era_, [&] {
    return message(
        "wait: task \"", task->name, "\" was under way when the process forked; it ends in the parent alone");
  });
  cpu_->before_wait();
  block_until(task);
  if (task->device.is_gpu()) {
    PositionSet positions;
    positions.add(task->position);
    wait_positions(positions);
  }
  rethrow_any_failure_of(*task);
}

void Core::wait_issued(const TaskHandle& handle) {
  cpu_->before_wait();
  block_until(handle.node_);
}

FailureRef Core::failure_of_task(const TaskNode& task) {
  FailureRef failure = task.failure();
  const bool may_be_late = failure == nullptr && task.device.is_gpu() && !task.core->late_.none();
  return may_be_late ? task.core->late_.of_task(task.position) : failure;
}

void Core::rethrow_failure_of(const TaskNode& task) {
  if (const FailureRef failure = task.failure())
    rethrow(failure);
}

void Core::rethrow_any_failure_of(const TaskNode& task) {
  rethrow_failure_of(task);
  if (late_.none()) [[likely]]
    return;
  const TaskExtras* const extras = task.extras();
  const bool is_look = task.kind != TaskKind::body && extras != nullptr;
  if (const FailureRef failure = is_look                ? late_.of_value(extras->result.written_at, extras->result.var)
                                 : task.device.is_gpu() ? late_.of_task(task.position)
                                                        : nullptr)
    rethrow(failure);
}

void Core::wait_all() {
  refuse_while_recording("wait_all");
  refuse_in_gpu_body("wait_all");
  const ThisThread& here = this_thread();
  require<Deadlock>(here.task == nullptr || here.core != this, [&] {
    return message("wait_all: task \"", here.task->name, "\" would wait for itself");
  });
  for (const TaskBelow* below = here.below; below != nullptr; below = below->next) {
    require<Deadlock>(below->task == nullptr || below->task->core != this, [&] {
      return message(
          "wait_all: task \"",
          here.task->name,
          "\" would wait for \"",
          below->task->name,
          "\", on top of which it runs");
    });
  }
  cpu_->before_wait();
  while (cpu_->help(32) > 0) {
  }
  {
    take_turn();
    const std::lock_guard one_at_a_time(wait_all_mutex_, std::adopt_lock);
    bool waited = drain_epoch();
    waited |= drain_epoch();  // again: a pusher may have counted into the epoch that it read before an earlier flip
    if (waited)
      count_wait();
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
    if (first == nullptr && failure_beyond_ != nullptr) {
      if (failure_beyond_ == no_memory_failure() || !failure_beyond_->record->reported.load())
        first = failure_beyond_;
      failure_beyond_ = nullptr;
    }
  }
  if (first != nullptr)
    rethrow(first);
}

void Core::clear_error(const Var& var) {
  refuse_while_recording("clear_error");
  refuse_in_gpu_body("clear_error");
  const Access access = sluice::write(var);
  require(access.var != nullptr && access.var->core == this, [] {
    return std::string("clear_error: an empty Var, or one of another engine");
  });
  refuse_self_wait(access);
  TaskNode* clear = make_bodiless(access, TaskKind::clear, "clear_error");
  push(clear);
  cpu_->before_wait();
  const HandleGuard guard{clear};
  block_until(clear);
}

}  // namespace sluice::detail
