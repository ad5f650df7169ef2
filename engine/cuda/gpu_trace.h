#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/detail/gpu_span.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

/// The stream that a body is issued on.
struct TracedStream {
  Device device;
  StreamKind kind = StreamKind::compute;
  std::uint16_t number = 0;
  cudaStream_t native = nullptr;
};

/// The tasks of a batch that is being collected, noted while each of them still has its record.
class TracedBatch {
 public:
  /// Before the task is finished. Without memory the task goes without.
  void add(const TaskNode& task) noexcept;
  bool empty() const noexcept { return tasks_.empty(); }
  void clear() noexcept { tasks_.clear(); }

 private:
  friend class GpuTrace;
  std::uint64_t recording_ = 0;
  boost::container::small_vector<std::uint64_t, 1> tasks_;
};

/// When GPUs came to the tasks of a trace and when they were done: an event with timing on either side of a body, only
/// while a trace runs. Device times become host times by an event on a stream of its own whose time the host has seen,
/// one when the recording meets the GPU and one when it is taken. (Events count in float milliseconds: finer than half
/// a microsecond for 4 s, 8 us after a minute.)
class GpuTrace {
 public:
  struct Span;

  GpuTrace();
  GpuTrace(const GpuTrace&) = delete;
  GpuTrace& operator=(const GpuTrace&) = delete;
  /// The streams are idle.
  ~GpuTrace();

  /// Around what is enqueued for a task that is `traced`, or for such a batch, on the thread that holds the stream,
  /// with its device current. Never throw; null where CUDA fails: then the task goes without.
  Span* before_body(const TracedStream& stream, const TaskNode& task) noexcept;
  Span* before_batch(const TracedStream& stream, TracedBatch batch) noexcept;
  void after_body(const TracedStream& stream, Span& span) noexcept;

  /// See GpuPolicy::take_trace.
  std::vector<GpuSpan> take(std::uint64_t recording);

 private:
  struct Clock;
  struct PerDevice;

  Span* begin(const TracedStream& stream, std::uint64_t recording, GpuSpan&& what) noexcept;
  PerDevice& device_of(const TracedStream& stream, std::uint64_t recording);

  std::mutex mutex_;
  std::vector<std::unique_ptr<PerDevice>> devices_;
};

}  // namespace sluice::detail
