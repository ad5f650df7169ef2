#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

void DirectLaunch::fail_unissued(TaskNode* task, FailureRef failure, bool ran) {
  task->body.reset();
  gpu_.core.finish(task, std::move(failure), ran, {});
}

FailureRef DirectLaunch::failed_meanwhile(const TaskNode& task) {
  if (gpu_.core.late().none() || task.on_failed_input == OnFailedInput::run) [[likely]]
    return nullptr;
  return gpu_.core.failed_input(task);
}

void DirectLaunch::issue(TaskNode* task, const PositionSet& needs) {
  StreamSlot& slot = gpu_.slots.choose(*task, needs);
  FailureRef failure;
  if (!gpu_.bodies.run(
          {.slot = &slot, .logical = slot.logical, .needs = &needs, .task = task, .name = task->name}, failure))
    return;
  const Position position = gpu_.slots.place(slot, *task);  // also after a throw: kernels may be there already
  if (gpu_.options.waits) {
    try {
      gpu_.policy.synchronize(*slot.logical, position.sequence());
    } catch (...) {
      if (failure == nullptr)
        failure = gpu_.loss.caught(gpu_.core.record_of(task));
    }
  }
  watch_backlog(slot);
  task->body.reset();
  if (gpu_.policy.reports().concerns_issue()) [[unlikely]]
    gpu_.policy.reports().follow(*task, position, failure);
  gpu_.core.finish(task, std::move(failure), true, position);
}

void DirectLaunch::watch_backlog(StreamSlot& slot) noexcept {
  try {
    if (!slot.stream->is_behind())
      return;
  } catch (...) {  // the tasks themselves find what is wrong
    return;
  }
  behind_ = &slot;
  throttled_.store(true, std::memory_order_relaxed);
  gpu_.policy.wake_poller();
}

void DirectLaunch::recheck_backlog() noexcept {
  try {
    const cuda::DeviceScope on(gpu_.device.index);
    if (behind_->stream->still_behind())
      return;
  } catch (...) {
  }
  throttled_.store(false, std::memory_order_relaxed);
}

}  // namespace sluice::detail
