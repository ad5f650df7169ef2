// From "all accesses granted" to "finished": where a task goes, whether its body runs, what its Vars say afterwards.
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

void Core::ready(TaskNode* task) {
  // Successors of successors would recurse; only the outermost call on a thread works, the others leave their task.
  ThisThread& here = this_thread();
  task->next = nullptr;
  if (here.draining) {
    (here.ready_tail == nullptr ? here.ready_head : here.ready_tail->next) = task;
    here.ready_tail = task;
    return;
  }
  here.draining = true;
  for (TaskNode* next = task; next != nullptr;) {
    next->next = nullptr;
    next->core->process(next);
    next = here.ready_head;
    if (next != nullptr)
      here.ready_head = next->next;
    if (here.ready_head == nullptr)
      here.ready_tail = nullptr;
  }
  here.draining = false;
}

void Core::process(TaskNode* task) {
  if (task->kind != TaskKind::body) {
    task->positions = needs(task);
    const Poison& poison = task->accesses.front().var->poison;
    finish(task, task->kind == TaskKind::look && poison.holds() ? poison.failure : nullptr, false, {});
    return;
  }
  if (task->device.is_gpu())
    return gpu()->submit(task);
  if (GpuPolicy* gpu_policy = gpu()) {
    PositionSet pending;
    for (Position position : needs(task)) {
      if (!gpu_policy->passed(position))
        pending.add(position);
    }
    if (!pending.empty())
      return cpu_->waits_for_gpu() ? wait_here(task, pending) : gpu_policy->fence(task, pending);
  }
  cpu_->submit(task);
}

void Core::wait_here(TaskNode* task, const PositionSet& positions) {
  FailureRef failure;
  try {
    gpu()->wait(positions);
  } catch (...) {
    failure = capture_failure(record_of(task));
  }
  run_fenced(task, std::move(failure));
}

void Core::run_fenced(TaskNode* task, FailureRef failure) {
  if (failure == nullptr)
    return cpu_->submit(task);
  auto expected = TaskState::queued;
  task->state.compare_exchange_strong(expected, TaskState::started);
  task->body.reset();
  finish(task, std::move(failure), true, {});
}

PositionSet Core::needs(const TaskNode* task) const {
  PositionSet positions;
  for (const AccessNode& access : task->accesses) {
    positions.add(access.var->written_at);
    if (access.exclusive())
      positions.add(access.var->read_at);
  }
  return positions;
}

std::shared_ptr<FailureRecord> Core::record_of(const TaskNode* task) const {
  auto record = std::make_shared<FailureRecord>();
  record->task = task->name;
  record->site = task->site;
  record->push_number = task->push_number;
  return record;
}

FailureRef Core::start(TaskNode* task) {
  auto expected = TaskState::queued;
  if (!task->state.compare_exchange_strong(expected, TaskState::started, std::memory_order_acq_rel)) {
    try {
      throw Cancelled(message("task \"", task->name, "\" was cancelled"));
    } catch (...) {
      return capture_failure(record_of(task));
    }
  }
  if (task->on_failed_input == OnFailedInput::run)
    return nullptr;
  for (const AccessNode& access : task->accesses) {
    if (access.mode != AccessMode::out && access.var->poison.holds())
      return access.var->poison.failure;
  }
  return nullptr;
}

void Core::run_on_cpu(TaskNode* task, int threads) {
  FailureRef failure = start(task);
  const bool runs = failure == nullptr;
  ThisThread& here = this_thread();
  const ThisThread before = here;
  here.core = this;
  here.task = task;
  here.scope = nullptr;
  if (runs) {
    try {
      task->body(Queue(*facade(), task->device, threads, nullptr));
    } catch (...) {
      failure = capture_failure(record_of(task));
    }
  }
  task->body.reset();
  here.core = before.core;
  here.task = before.task;
  here.scope = before.scope;
  finish(task, std::move(failure), runs, {});
}

void Core::settle(TaskNode* task, AccessNode& access, const FailureRef& failure, bool ran, Position position) {
  VarCore* var = access.var;
  if (!access.exclusive()) {
    if (!position)
      return;
    const std::lock_guard hold(var->lock);
    var->read_at.add(position);
    return;
  }
  if (task->kind == TaskKind::clear)
    var->poison = {};
  if (task->kind != TaskKind::body)
    return;
  if (ran) {  // what came before is done (CPU) or before `position` on its stream
    var->written_at = position;
    var->read_at.clear();
  }
  const bool out = access.mode == AccessMode::out;
  if (ran && failure == nullptr) {
    if (out || !var->poison.holds())
      var->poison = {};
    var->version.fetch_add(1, std::memory_order_release);
  } else if (ran || out) {
    var->poison = {failure, true};
  } else if (!var->poison.holds()) {
    var->poison = {failure, false};
  }
}

void Core::finish(TaskNode* task, FailureRef failure, bool ran, Position position) {
  const bool counted = task->kind == TaskKind::body;
  if (counted && failure != nullptr) {
    CountShard& counts = counts_[static_cast<std::size_t>(this_shard())];
    (ran ? counts.failed : counts.skipped).fetch_add(1, std::memory_order_relaxed);
    if (ran)
      note_failure(failure);
  }
  for (AccessNode& access : task->accesses)
    settle(task, access, failure, ran, position);
  task->failure = std::move(failure);
  task->positions.add(position);
  for (AccessNode& access : task->accesses) {
    if (access.exclusive()) {
      advance(access.var);
    } else {
      finish_read(access.var);
    }
  }
  const int epoch = task->epoch;
  task->state.store(TaskState::finished, std::memory_order_release);
  task->state.notify_all();
  release_task(task);
  if (counted)
    leave_epoch(epoch);
}

void Core::note_failure(FailureRef failure) {
  const std::lock_guard hold(failures_mutex_);
  // What a wait has reported meanwhile need not be kept.
  if (failures_.size() >= 64)
    std::erase_if(failures_, [](const FailureRef& f) { return f->record->reported.load(); });
  failures_.push_back(std::move(failure));
}

void Core::release_task(TaskNode* task) noexcept {
  if (task->references.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  task->failure = nullptr;
  task->positions.clear();
  task->accesses.clear();
  NodePool<TaskNode, &TaskNode::next>::give(task);
}

}  // namespace sluice::detail
