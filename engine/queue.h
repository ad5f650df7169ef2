#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <sluice/engine/completion.h>
#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/engine/position.h>

namespace sluice {

class Engine;
class Queue;

namespace detail {
class Stream;
struct TaskNode;

SLUICE_API int next_slot_id() noexcept;
template <class T>
inline const int slot_id = next_slot_id();
}  // namespace detail

/// Where a kernel reports bad data (an index out of range, a singular matrix) without ending the CUDA context. Mapped
/// host memory. The task fails with the error that FaultCode says: whoever waits for what came of it gets that.
struct ErrorWord {
  int code = 0;  // 0 = nothing to report; set last, by the first thread that finds a fault
  int reserved = 0;
  long long value = 0;
  long long bound = 0;
};

/// What a task body gets: the place to enqueue its work. Valid during the body only. On a GPU the body enqueues on
/// stream() and returns; it never synchronises.
class SLUICE_API Queue {
 public:
  Queue(Engine& engine, Device device, int threads, detail::Stream* stream, detail::TaskNode* task = nullptr) noexcept
      : engine_(&engine), device_(device), threads_(threads), stream_(stream), task_(task) {}

  Engine& engine() const noexcept { return *engine_; }
  Device device() const noexcept { return device_; }
  /// CPU: threads granted to a library's own team (1 unless the task asked for more).
  int threads() const noexcept { return threads_; }
  /// Which of the engine's workers runs the body: 0 to workers() - 1, beyond that where one stands in for a body that
  /// waits. Bodies that run at the same time have different numbers. -1 on threads that are not the engine's own:
  /// attached ones, those of an executor, and under the policies without workers; a team's (Task::threads). WorkerLocal
  /// serves all of them.
  int worker() const noexcept;
  /// True once the task's stop token, TaskHandle::cancel() or Engine::stop(Stop::cancel) asks the body to end early. A
  /// body that heeds it throws Cancelled, or leaves its Vars as they should be. Any thread may ask, during the body.
  bool stop_requested() const noexcept;

  /// CPU: the task ends when what this returns says so, or is dropped, and its body has ended: see TaskCompletion. For
  /// the body itself, also a coroutine, once. Throws UnsupportedError on a GPU, ValueError elsewhere or a second time.
  TaskCompletion complete_later() const;

  /// GPU: the cudaStream_t, untyped so that no header outside engine/cuda names CUDA. Null on a CPU.
  /// Throws CudaError if what the task depends on cannot be put before it, as the others do.
  void* stream() const;
  /// GPU: the position that this task will have; memory used by the body is free for others once it has passed.
  Position position() const;
  /// GPU: makes the stream wait for `positions` before what is enqueued next. The host does not wait.
  void wait_for(const PositionSet& positions) const;
  /// GPU: where kernels of this task report bad data; the first report counts. Null on a CPU. Throws CudaError.
  ErrorWord* error_word() const;

  /// GPU: the stream's own T (a library handle with its stream set), made as T(queue) at first use and destroyed
  /// before the stream. Only the task that holds the stream may use it.
  template <class T>
  T& slot() const {
    std::shared_ptr<void>& held = slot_at(detail::slot_id<T>);
    if (held == nullptr)
      held = std::make_shared<T>(*this);
    return *static_cast<T*>(held.get());
  }

 private:
  std::shared_ptr<void>& slot_at(int id) const;

  Engine* engine_;
  Device device_;
  int threads_;
  detail::Stream* stream_;
  detail::TaskNode* task_;
};

}  // namespace sluice
