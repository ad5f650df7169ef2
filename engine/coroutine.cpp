#include <mutex>

#include <sluice/engine/detail/completion_control.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/coroutine_control.h>
#include <sluice/engine/detail/group_state.h>

namespace sluice {

bool AsyncWait::suspend(detail::CoroutineControl& control) noexcept {
  control_ = &control;
  return control.suspend(access_);
}
void AsyncWait::await_resume() const {
  control_->rethrow_result();
}

void Coroutine::promise_type::unhandled_exception() noexcept {
  control_->fail();
}
void Coroutine::promise_type::end() noexcept {
  control_->end();
}

AsyncWait Engine::async_wait(const Var& var) const {
  return async_wait(read(var));
}
AsyncWait Engine::async_wait(Access access) const {
  check_awaited(access);
  return AsyncWait(access);
}

void Engine::check_awaited(Access access) const {
  detail::refuse_while_recording("async_wait");
  require(access.var != nullptr, [] { return std::string("async_wait: an empty Var"); });
  require(access.var->core == core_, [] { return std::string("async_wait: a Var of another engine"); });
}

namespace detail {

void adopt_coroutine(Coroutine&& made) {
  TaskNode* task = this_thread().task;
  require(task != nullptr, [] { return std::string("Coroutine: called outside a task"); });
  require<UnsupportedError>(task->device.is_cpu() && task->threads <= 1, [&] {
    return message(
        "push: task \"",
        task->name,
        "\" on ",
        task->device,
        " with ",
        task->threads,
        " thread(s): a coroutine body runs on one CPU thread");
  });
  TaskExtras& extras = task->need_extras();
  auto* control = new CoroutineControl(std::move(made), task);
  extras.coroutine.store(control, std::memory_order_release);
  // Cancelled while it began, perhaps: who asked looks for the coroutine once more after having said so.
  if ((task->state.fetch_or(0, std::memory_order_acq_rel) & TaskNode::k_stop) != 0)
    control->cancel();
}

// -- CoroutineControl --

CoroutineControl::CoroutineControl(Coroutine&& made, TaskNode* task) noexcept
    : task_(task), frame_(std::exchange(made.frame_, nullptr)) {
  frame_.promise().control_ = this;
  const std::stop_token& stop = task->extras()->stop;
  if (stop.stop_possible())
    stop_.emplace(stop, Cancels{this});
  if (GroupState* group = task->group())
    group_stop_.emplace(group->stops().get_token(), Cancels{this});
}

CoroutineControl::~CoroutineControl() {
  if (frame_)
    frame_.destroy();
}

bool CoroutineControl::run() {
  bool ended = false;
  ended_ = &ended;
  frame_.resume();
  return ended;
}

void CoroutineControl::end() noexcept {
  *ended_ = true;
  const std::lock_guard hold(lock_);
  phase_ = Phase::ended;
}

void CoroutineControl::fail() noexcept {
  outcome_ = capture_failure(task_->core->record_of(task_));
}

FailureRef CoroutineControl::take_outcome() noexcept {
  stop_.reset();
  group_stop_.reset();
  std::exchange(frame_, nullptr).destroy();
  return std::move(outcome_);
}

void CoroutineControl::rethrow_result() {
  if (result_ != nullptr)
    std::rethrow_exception(std::exchange(result_, nullptr));
}

// Thrown by an await; if it leaves the body, the task fails with it, but nobody needs to be told who cancelled.
std::exception_ptr CoroutineControl::cancelled() const noexcept {
  try {
    throw Cancelled(message("task \"", task_->name, "\" was cancelled while it waited"));
  } catch (...) {
    const FailureRef failure = capture_failure(task_->core->record_of(task_));
    failure->record->reported.store(true);
    return failure->exception;
  }
}

bool CoroutineControl::suspend(Access access) noexcept {
  try {
    return start_to_wait(access);
  } catch (...) {
    result_ = std::current_exception();
    return false;
  }
}

// Once suspended, the body may be resumed, and this object be gone, before the caller returns.
bool CoroutineControl::start_to_wait(Access access) {
  const PendingWait wait(access, *this);
  if (access.var->core == task_->core)
    task_->core->refuse_self_wait(access);
  if (task_->core->cancelling() && !std::exchange(knows_of_stop_, true))
    std::rethrow_exception(cancelled());
  {
    const std::lock_guard hold(lock_);
    phase_ = Phase::starting;
  }
  blocked_ = {.task = task_, .awaited = wait.node(), .coroutine = this};
  task_->core->suspends(blocked_);
  GroupState* const group = task_->has_place() ? task_->group() : nullptr;
  if (group != nullptr)
    group->give_place(*task_);
  wait.start();
  for (bool too_late = false;;) {
    {
      const std::lock_guard hold(lock_);
      if (phase_ == Phase::told) {
        phase_ = Phase::running;
        if (group != nullptr)
          group->take_place(*task_);
        return false;
      }
      if (!cancel_requested_ || too_late) {
        phase_ = Phase::suspended;
        awaited_.emplace(wait);
        return true;
      }
      cancel_requested_ = false;
    }
    if (!wait.cancel(cancelled())) {
      const std::lock_guard hold(lock_);
      cancel_requested_ = too_late = true;
    }
  }
}

void CoroutineControl::complete(std::exception_ptr error) noexcept {
  std::optional<PendingWait> over;
  task_->core->resumes(blocked_);
  {
    const std::lock_guard hold(lock_);
    result_ = std::move(error);
    if (phase_ == Phase::starting) {
      phase_ = Phase::told;
      return;
    }
    phase_ = Phase::running;
    over.swap(awaited_);
  }
  task_->submitted.store(false, std::memory_order_relaxed);  // in no queue, whoever wants to make it more urgent
  // Who takes it next claims it again. Where it still lies linked by `next`, the other queue has it.
  constexpr std::uint32_t k_linked = TaskNode::k_twice | TaskNode::k_ahead;
  const std::uint32_t before = task_->state.fetch_and(~TaskNode::k_started, std::memory_order_acq_rel);
  if ((before & TaskNode::k_twice) == 0)
    return task_->core->submit_body(task_);
  // Where it still lies anywhere it may be taken at once: it does not wait for a place.
  if (GroupState* group = task_->group(); group != nullptr && group->limited())
    group->take_place(*task_);
  if ((before & k_linked) != k_linked || !task_->core->cpu().submit_again(task_))
    task_->core->cpu().submit(task_);
}

std::optional<PendingWait> CoroutineControl::awaited() const {
  const std::lock_guard hold(lock_);
  return awaited_;
}

bool CoroutineControl::cancel() {
  if (forks_ != fork_count())
    return false;  // in a forked child: it goes on in the parent alone
  task_->state.fetch_or(TaskNode::k_stop, std::memory_order_acq_rel);
  std::optional<PendingWait> wait;
  Core* core = nullptr;
  {
    const std::lock_guard hold(lock_);
    if (phase_ != Phase::suspended) {
      cancel_requested_ = true;
      return false;
    }
    wait = awaited_;
    core = task_->core;
    core->retain();  // the task may end, and its engine, before this returns
  }
  const bool resumes = wait->cancel(cancelled());
  core->cpu().after_push();
  core->release();
  if (!resumes) {
    const std::lock_guard hold(lock_);
    cancel_requested_ = true;
  }
  return resumes;
}

// -- Core --

void Core::run_coroutine(TaskNode* task) {
  CoroutineControl& control = *task->coroutine();
  bool ended = false;
  FailureRef failure;
  {
    ThisThread& here = this_thread();
    const WorkScope work(here, work_of(*this, task));
    {
      const BodyMode mode(here.mode, task->flush_denormals);
      ended = control.run();
    }
    if (ended) {
      failure = control.take_outcome();
      task->body.reset();
    }
  }
  if (!ended)
    return;
  if (CompletionControl* completion = task->completion())
    return completion->body_ended(std::move(failure));
  finish(task, std::move(failure), true, {});
}

void Core::drop_coroutine(TaskExtras& extras) noexcept {
  delete extras.coroutine.exchange(nullptr, std::memory_order_relaxed);
}

}  // namespace detail
}  // namespace sluice
