// From "all accesses granted" to "finished": where a task goes, whether its body runs, what its Vars say afterwards.
#include <algorithm>
#include <memory>
#include <new>

#include <sluice/engine/detail/clock.h>
#include <sluice/engine/detail/commute_run.h>
#include <sluice/engine/detail/completion_control.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/futex.h>
#include <sluice/engine/detail/group_state.h>
#include <sluice/engine/detail/named_range.h>

namespace sluice::detail {

namespace {
constexpr std::size_t k_most_failures = 4096;  // kept for wait_all(), beside those that it has reported
}

TaskExtras& no_memory_extras() {
  static auto* made = [] {
    auto extras = std::make_unique<TaskExtras>();
    extras->result.failure = no_memory_failure();
    return extras.release();  // leaked: handles may outlive static objects
  }();
  return *made;
}

TaskExtras& TaskNode::extras_at_any_rate() noexcept {
  try {
    return need_extras();
  } catch (const std::bad_alloc&) {
    extras_there = &no_memory_extras();
    has_extras.store(true, std::memory_order_release);
    return *extras_there;
  }
}

void Core::ready(TaskNode* task) noexcept {
  if (task->traced || task->commutes) [[unlikely]] {
    if (task->commutes && !Commuting::gets_in(*task))
      return;
    if (task->traced)
      Tracer::ready(*task);
  }
  // Successors of successors would recurse; only the outermost call on a thread works, the others leave their task.
  ThisThread& here = this_thread();
  task->next = nullptr;
  if (here.draining) {
    (here.ready_tail == nullptr ? here.ready_head : here.ready_tail->next) = task;
    here.ready_tail = task;
    return;
  }
  here.draining = true;
  task->core->process(task);
  run_ready(here);
}

void Core::run_ready(ThisThread& here) noexcept {
  while (TaskNode* next = here.ready_head) {
    here.ready_head = next->next;
    if (here.ready_head == nullptr)
      here.ready_tail = nullptr;
    next->next = nullptr;
    next->core->process(next);
  }
  here.draining = false;
  here.issued = 0;
}

// What is thrown on the way, for lack of memory, is the task's failure: it has been pushed, and others wait for it.
void Core::process(TaskNode* task) noexcept {
  FailureRef failure;
  try {
    return send_on(task);
  } catch (...) {
    failure = capture_failure(record_of(task));
  }
  give_up(task, std::move(failure));
}

void Core::give_up(TaskNode* task, FailureRef failure) noexcept {
  claim(task);
  task->body.reset();
  if (task->kind == TaskKind::body)
    note_failure(failure);
  if (GroupState* group = task->kind == TaskKind::body ? task->group() : nullptr)
    group->note(failure);
  finish(task, std::move(failure), false, {});
}

void Core::send_on(TaskNode* task) {
  if (task->kind != TaskKind::body) [[unlikely]]
    return note_and_finish(task);
  if (task->device.is_gpu())
    return gpu()->submit(task);
  if (GpuPolicy* gpu_policy = gpu()) {
    PositionSet pending;
    for (Position position : needs(task)) {
      if (!gpu_policy->arrived(position))
        pending.add(position);
    }
    if (!pending.empty())
      return cpu_->waits_for_gpu() ? wait_here(task, pending) : gpu_policy->fence(task, pending);
  }
  submit_body(task);
}

void Core::submit_body(TaskNode* task) {
  GroupState* const group = task->group();
  if (group != nullptr && group->limited()) [[unlikely]]
    return group->submit(task);
  cpu_->submit(task);
}

// A task without a body: what its Var says is noted for whoever waits.
void Core::note_and_finish(TaskNode* task) {
  if (CompletionControl* completion = task->completion()) {  // it holds its Var
    claim(task);
    return completion->body_ended(nullptr);
  }
  PositionSet positions = needs(task);
  const VarCore& var = *task->accesses().front().var;
  if (!positions.empty()) {
    TaskResult& result = task->need_extras().result;
    result.written_at = late_.writer_of(var);
    result.var = var.id;
    result.positions = std::move(positions);
  }
  claim(task);
  finish(task, task->kind != TaskKind::clear ? failure_of(var) : nullptr, false, {});
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
  if (task->kind == TaskKind::async_probe)
    return end_async_wait(task, std::move(failure));
  if (failure == nullptr)
    return submit_body(task);
  claim(task);
  task->body.reset();
  finish(task, std::move(failure), true, {});
}

PositionSet Core::needs(const TaskNode* task) const {
  PositionSet positions;
  for (const AccessNode& access : task->accesses()) {
    positions.add(access.var->written_at);
    if (access.exclusive())
      positions.add(access.var->read_at);
  }
  return positions;
}

std::shared_ptr<FailureRecord> Core::record_of(const TaskNode* task) const noexcept {
  return new_record(task->name, task->site(), task->push_number);
}

bool Core::claim(TaskNode* task) noexcept {
  const std::uint32_t seen = task->state.fetch_or(TaskNode::k_started, std::memory_order_acq_rel);
  if ((seen & TaskNode::k_started) != 0) [[unlikely]] {
    drop(task, TaskNode::k_twice | TaskNode::k_ahead);
    return false;
  }
  if ((seen & TaskNode::k_ahead) != 0) [[unlikely]]  // a coroutine that was resumed meanwhile lies elsewhere too
    task->state.fetch_and(~TaskNode::k_ahead, std::memory_order_acq_rel);
  return true;
}

bool Core::claim_ahead(TaskNode* task) noexcept {
  std::uint32_t seen = task->state.load(std::memory_order_acquire);
  for (;;) {
    if ((seen & TaskNode::k_started) != 0) {
      drop(task, TaskNode::k_twice);
      return false;
    }
    const std::uint32_t ahead = (seen & TaskNode::k_twice) != 0 ? TaskNode::k_ahead : 0;
    if (task->state.compare_exchange_weak(seen, seen | TaskNode::k_started | ahead, std::memory_order_acq_rel))
      return true;
  }
}

bool Core::stop_requested(const TaskNode& task) const noexcept {
  return (task.state.load(std::memory_order_acquire) & TaskNode::k_stop) != 0 || not_wanted(task);
}

// For a task that is taken to run: whether its body is to be left out.
bool Core::not_wanted(const TaskNode& task) const noexcept {
  return (task.state.load(std::memory_order_acquire) & TaskNode::k_cancelled) != 0 || task.token_says_stop() ||
         cancelling_.load(std::memory_order_relaxed);
}

// Why a task whose Vars are free is not begun all the same.
FailureRef Core::cancelled(const TaskNode& task) const noexcept {
  const bool whole_engine = cancelling_.load(std::memory_order_relaxed);
  if (task.on_failed_input == OnFailedInput::run && whole_engine)  // cleaning up is what it is for
    return nullptr;
  try {
    throw Cancelled(message("task \"", task.name, "\" was cancelled", whole_engine ? " with its engine" : ""));
  } catch (...) {
    return capture_failure(record_of(&task));
  }
}

FailureRef Core::start(TaskNode* task) {
  if (task->traced) [[unlikely]]
    Tracer::started(*task);
  if (not_wanted(*task)) [[unlikely]] {
    if (FailureRef failure = cancelled(*task))
      return failure;
  }
  if (task->on_failed_input == OnFailedInput::run)
    return nullptr;
  return failed_input(*task);
}

void Core::run_on_cpu(TaskNode* task, int threads) {
  if (task->coroutine() != nullptr) [[unlikely]]
    return run_coroutine(task);
  for (const AccessNode& access : task->accesses()) {  // the body may find them when it ends
    __builtin_prefetch(access.var, 1);
    __builtin_prefetch(&access.var->run, 1);
  }
  FailureRef failure = start(task);
  const bool runs = failure == nullptr;
  bool goes_on = false;
  {
    ThisThread& here = this_thread();
    const WorkScope work(here, work_of(*this, task));
    if (runs) {
      const std::uint64_t began = here.body_ticks == 0 ? 0 : clock_ticks();
      try {
        const NamedRange range(NamedRange::k_body, task->name);
        const BodyMode mode(here.mode, task->flush_denormals);
        task->body(Queue(*facade(), task->device, threads, nullptr, task));
        if (began != 0)
          here.body_ticks = clock_ticks() - began;
      } catch (...) {
        failure = capture_failure(record_of(task));
      }
    }
    goes_on = task->coroutine() != nullptr;  // which the body has just made
    if (!goes_on) [[likely]]
      task->body.reset();
  }
  if (goes_on) [[unlikely]]
    return run_coroutine(task);
  if (CompletionControl* completion = task->completion()) [[unlikely]]
    return completion->body_ended(std::move(failure));
  finish(task, std::move(failure), runs, {});
}

void Core::settle_write(TaskNode* task, AccessNode& access, const FailureRef& failure, bool ran, Position position) {
  VarCore* var = access.var;
  if (!late_.none() && var->written_at) [[unlikely]]
    late_.hand_over(*var);
  if (task->kind == TaskKind::clear)
    var->poison = {};
  if (task->kind != TaskKind::body)
    return;
  // What came before is done (CPU) or before `position` on its stream; a GPU task without one had nothing to do.
  // A CPU task that failed may not have waited.
  const auto waited = [&] {
    return failure == nullptr || (passed(var->read_at) && (!var->written_at || gpu()->passed(var->written_at)));
  };
  if (ran && gpu() != nullptr && (position || (task->device.is_cpu() && waited()))) {
    var->written_at = position;
    var->read_at.clear();
  }
  const bool out = access.mode() == AccessMode::out;
  if (ran && failure == nullptr) {
    if (var->poison && (out || !var->poisoned()))
      var->poison = {};
    return var->note_write(1);
  }
  if (ran || out)
    var->poison = {failure, true};
  else if (!var->poisoned())
    var->poison = {failure, false};
  var->note_write(VarCore::k_failed_write);
}

// Where there is no memory to say so, the read is over before anything can come after it.
void Core::note_reader(VarCore& var, Position position) noexcept {
  try {
    const std::lock_guard hold(var.lock);
    return var.read_at.add(position);
  } catch (const std::bad_alloc&) {
  }
  try {
    PositionSet read;
    read.add(position);
    gpu()->wait(read);
  } catch (...) {  // the GPU is lost, and with it the reader
  }
}

void Core::finish(TaskNode* task, FailureRef failure, bool ran, Position position) {
  if (task->traced) [[unlikely]]
    Tracer::finished(*task, failure, ran);
  const bool counted = task->kind == TaskKind::body;
  ThisThread& here = this_thread();
  if (failure != nullptr) [[unlikely]] {
    if (counted)
      (ran ? counts(here).failed : counts(here).skipped).add(here.owns_slot());
    if (counted && ran)
      note_failure(failure);
    if (TaskExtras& extras = task->extras_at_any_rate(); &extras != &no_memory_extras())
      extras.result.failure = failure;
  }
  if (task->device.is_gpu())
    ::new (&task->position) Position(position);
  const bool outermost = !std::exchange(here.draining, true);
  enter_lists(here);
  for (AccessNode& access : task->accesses()) {
    if (access.exclusive()) {
      settle_write(task, access, failure, ran, position);
    } else if (position) {
      note_reader(*access.var, position);
    }
    leave(access);
  }
  leave_lists(here);
  if (here.ready_head != nullptr && outermost)  // outside the lists: a GPU body may wait for who is kept out of them
    run_ready(here);
  here.draining = !outermost;
  if (task->kind == TaskKind::async_probe) [[unlikely]]
    return conclude(task);
  const int epoch = task->epoch;
  GroupState* const group = task->group();
  if (group != nullptr) [[unlikely]]
    ends_in_group(*task, counted && ran ? task->failure() : nullptr, position);
  close_task(task);
  if (counted)
    leave_epoch(epoch);
  if (group != nullptr) [[unlikely]] {
    group->leave();
    group->release();
  }
}

// Before the task is gone; then it leaves.
void Core::ends_in_group(TaskNode& task, const FailureRef& failure, Position position) noexcept {
  GroupState& group = *task.group();
  group.retain();
  if (failure != nullptr)
    group.note(failure);
  if (position)
    group.note(position);
  group.give_place(task);
}

void Core::close_task(TaskNode* task) noexcept {
  const std::uint32_t seen = task->state.load(std::memory_order_acquire);
  if ((seen & (TaskNode::k_handle | TaskNode::k_twice)) == 0)  // neither comes again
    return recycle(task);
  const std::uint32_t before = task->state.fetch_or(TaskNode::k_finished, std::memory_order_acq_rel);
  if ((before & (TaskNode::k_handle | TaskNode::k_twice)) == 0)
    return recycle(task);
  if ((before & TaskNode::k_waiter) != 0)
    futex_wake_all(task->state);
}

void Core::drop(TaskNode* task, std::uint32_t bit) noexcept {
  const std::uint32_t left = task->state.fetch_and(~bit, std::memory_order_acq_rel) & ~bit;
  if ((left & TaskNode::k_finished) != 0 && (left & (TaskNode::k_handle | TaskNode::k_twice)) == 0)
    recycle(task);
}

void Core::note_failure(FailureRef failure) noexcept {
  const std::lock_guard hold(failures_mutex_);
  // What a wait has reported meanwhile need not be kept. Looked through when they have doubled: a step costs the same
  // however many nobody asks about.
  if (failures_.size() >= failures_pruned_at_) {
    std::erase_if(failures_, [](const FailureRef& f) { return f->record->reported.load(); });
    failures_pruned_at_ = std::clamp<std::size_t>(2 * failures_.size(), 64, k_most_failures);
  }
  if (failures_.size() < k_most_failures && failure != no_memory_failure()) {
    try {
      failures_.push_back(failure);
      return;
    } catch (const std::bad_alloc&) {
    }
  }
  failure_beyond_ = std::move(failure);
  ++failures_beyond_;
}

}  // namespace sluice::detail
