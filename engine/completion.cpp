// Tasks that somebody else ends.
#include <mutex>
#include <string>
#include <utility>

#include <sluice/engine/completion.h>
#include <sluice/engine/detail/completion_control.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/group_state.h>

namespace sluice {

namespace detail {

CompletionControl::CompletionControl(TaskNode* task) : task_(task) {
  abandoned();
}

void CompletionControl::listen() {
  const std::stop_token& own = task_->extras()->stop;
  if (own.stop_possible())
    of_task_.emplace(own, Stops{this});
  if (GroupState* group = task_->group())
    of_group_.emplace(group->stops().get_token(), Stops{this});
  of_engine_.emplace(task_->core->cancel_token(), Stops{this});
  // Cancelled while the body ran, perhaps: who asked looks for this once more after having said so.
  if ((task_->state.fetch_or(0, std::memory_order_acq_rel) & TaskNode::k_stop) != 0)
    request_stop();
}

// True for the second part. Then nobody needs to be told to stop any more; a callback that runs now is waited for,
// unless it is the one that ends the task.
bool CompletionControl::part_ended() noexcept {
  if (parts_.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return false;
  of_task_.reset();
  of_group_.reset();
  of_engine_.reset();
  if (of_body_ == nullptr)
    of_body_ = std::move(of_outside_);
  return true;
}

void CompletionControl::body_ended(FailureRef failure) noexcept {
  of_body_ = std::move(failure);
  if (part_ended())
    task_->core->finish(task_, std::move(of_body_), true, {});
}

void CompletionControl::outside_ended(FailureRef failure) noexcept {
  if (task_->era != task_->core->era())
    return drop();  // in a forked child: the task ends in the parent alone
  of_outside_ = std::move(failure);
  if (part_ended()) {
    Core& core = *task_->core;
    core.retain();  // whom the task's end reaches may end the engine before this returns
    core.finish(task_, std::move(of_body_), true, {});
    core.cpu().after_push();
    core.release();
  }
  drop();
}

void CompletionControl::holder_ended() noexcept {
  if (part_ended())
    task_->core->finish(task_, nullptr, true, {});
  drop();
}

const FailureRef& CompletionControl::abandoned() {
  static const FailureRef failure = [] {
    try {
      throw AbandonedCompletion("a TaskCompletion was dropped before it had ended its task");
    } catch (...) {
      return capture_failure(new_record("", {}, 0));
    }
  }();
  return failure;
}

}  // namespace detail

TaskCompletion Queue::complete_later() const {
  const detail::ThisThread& here = detail::this_thread();
  require<UnsupportedError>(
      device_.is_cpu(), [] { return std::string("complete_later: a task on a GPU ends when the GPU says so"); });
  require(task_ != nullptr && here.task == task_ && !here.in_parallel, [] {
    return std::string("complete_later: called outside the body of the task");
  });
  detail::TaskExtras& extras = task_->need_extras();
  require(extras.completion.load() == nullptr, [&] {
    return message("complete_later: task \"", task_->name, "\" has been given a TaskCompletion before");
  });
  auto* const control = new detail::CompletionControl(task_);
  extras.completion.store(control, std::memory_order_release);
  TaskCompletion made(*control);
  control->listen();
  return made;
}

TaskCompletion::~TaskCompletion() {
  if (control_ == nullptr)
    return;
  try {
    throw AbandonedCompletion(
        message("task \"", control_->task()->name, "\": its TaskCompletion was dropped before it had ended the task"));
  } catch (...) {
    try {
      fail(std::current_exception());
    } catch (...) {  // out of memory
      std::exchange(control_, nullptr)->outside_ended(detail::CompletionControl::abandoned());
    }
  }
}

void TaskCompletion::complete() {
  require(control_ != nullptr, [] { return std::string("complete: an empty TaskCompletion"); });
  std::exchange(control_, nullptr)->outside_ended(nullptr);
}

void TaskCompletion::fail(std::exception_ptr error) {
  require(control_ != nullptr, [] { return std::string("fail: an empty TaskCompletion"); });
  require(error != nullptr, [] { return std::string("fail: no error is given"); });
  detail::FailureRef failure;
  try {
    std::rethrow_exception(std::move(error));
  } catch (...) {
    failure = detail::capture_failure(control_->task()->core->record_of(control_->task()));
  }
  std::exchange(control_, nullptr)->outside_ended(std::move(failure));
}

std::stop_token TaskCompletion::stop_token() const {
  require(control_ != nullptr, [] { return std::string("stop_token: an empty TaskCompletion"); });
  return control_->stop_token();
}

}  // namespace sluice
