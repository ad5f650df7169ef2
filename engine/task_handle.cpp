// What may be asked of a pushed task.
#include <exception>
#include <string>

#include <sluice/engine/detail/completion_control.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/coroutine_control.h>
#include <sluice/engine/engine.h>

namespace sluice {

TaskHandle::~TaskHandle() {
  if (node_ != nullptr)
    detail::Core::drop_handle(node_);
}

bool TaskHandle::cancel() {
  require(node_ != nullptr, [] { return std::string("cancel: an empty TaskHandle"); });
  using Node = detail::TaskNode;
  const auto tell_outside = [this] {
    if (detail::CompletionControl* completion = node_->completion())
      completion->request_stop();
  };
  if (detail::CoroutineControl* coroutine = node_->coroutine()) {
    const bool resumes = coroutine->cancel();
    tell_outside();
    return resumes;
  }
  std::uint32_t seen = node_->state.load(std::memory_order_acquire);
  bool started = false;
  for (;;) {
    if ((seen & (Node::k_cancelled | Node::k_finished)) != 0)
      return (seen & Node::k_finished) == 0;
    started = (seen & Node::k_started) != 0;
    if (node_->state.compare_exchange_weak(
            seen, seen | (started ? Node::k_stop : Node::k_cancelled), std::memory_order_acq_rel))
      break;
  }
  if (!started)
    return true;
  tell_outside();
  // A body that has just begun may have become a coroutine, which asks whether it was cancelled before it is known.
  detail::CoroutineControl* coroutine = node_->coroutine();
  return coroutine != nullptr && coroutine->cancel();
}

bool TaskHandle::done() const {
  require(node_ != nullptr, [] { return std::string("done: an empty TaskHandle"); });
  const bool finished = node_->finished();  // of a GPU task: issued, which it may be a moment later
  if (!finished || node_->device.is_cpu())
    return finished;
  detail::GpuPolicy* const gpu = node_->core->gpu();  // none in a forked child, where wait() returns at once
  return !node_->position || gpu == nullptr || gpu->ask(node_->position);
}

TaskStatus TaskHandle::status() const {
  require(node_ != nullptr, [] { return std::string("status: an empty TaskHandle"); });
  if (!done()) {
    const bool begun = (node_->state.load(std::memory_order_acquire) & detail::TaskNode::k_started) != 0;
    return begun || node_->coroutine() != nullptr ? TaskStatus::running : TaskStatus::waiting;
  }
  const detail::FailureRef failure = detail::Core::failure_of_task(*node_);
  if (failure == nullptr) {
    const detail::GpuPolicy* const gpu = node_->device.is_cpu() || !node_->position ? nullptr : node_->core->gpu();
    return gpu == nullptr || gpu->arrived(node_->position) ? TaskStatus::finished : TaskStatus::failed;
  }
  try {
    std::rethrow_exception(failure->exception);
  } catch (const Cancelled&) {
    return TaskStatus::cancelled;
  } catch (...) {
    return TaskStatus::failed;
  }
}

void TaskHandle::wait() {
  require(node_ != nullptr, [] { return std::string("wait: an empty TaskHandle"); });
  detail::refuse_while_recording("wait");
  if (node_->finished() && node_->device.is_cpu())
    return detail::Core::rethrow_failure_of(*node_);  // the engine may be gone
  node_->core->wait_task(node_);
}

}  // namespace sluice
