#pragma once

#include <exception>

#include <cuda_runtime_api.h>

#include <sluice/engine/closure.h>
#include <sluice/engine/cuda/batch.h>
#include <sluice/engine/cuda/gpu_trace.h>
#include <sluice/engine/cuda/stream_slots.h>
#include <sluice/engine/detail/failure.h>

namespace sluice::detail {

struct Gpu;

/// A body that is being called.
struct BodyCall {
  StreamSlot* slot = nullptr;
  LogicalStream* logical = nullptr;
  const PositionSet* needs = nullptr;
  TaskNode* task = nullptr;  // null: called again
  const char* name = "";
  bool captured = false;
  bool ordered = false;  // what it enqueues comes after its needs
  GpuTrace::Span* span = nullptr;
  std::exception_ptr failure = {};    // of what should have come before
  FailureRef input = {};              // of an input, since the task was begun: it is skipped
  cudaError_t error = cudaSuccess;    // that the body has left, seen before its end
  const Batch::Step* step = nullptr;  // that is called again
};

/// Calls the bodies of one GPU's tasks, and serves what they ask for meanwhile by way of their Queue: what a body
/// depends on comes before the first thing that it enqueues. Owned by Gpu, which DirectLaunch and Batches call it for;
/// bodies come here through StreamView, and through StreamPolicy when they wait. For the issuing thread only.
class BodyCalls {
 public:
  explicit BodyCalls(Gpu& gpu) : gpu_(gpu) {}
  BodyCalls(const BodyCalls&) = delete;
  BodyCalls& operator=(const BodyCalls&) = delete;

  // -- For those who launch ------------------------------------------------------------------------------------------
  /// Calls the body of `call.task`. False if the task is over: it has enqueued nothing.
  bool run(const BodyCall& call, FailureRef& failure);
  /// Calls a body that was captured in vain, at the place that it has. Throws what it throws.
  void run_again(const BodyCall& call, Closure& body);
  /// The body that was called last must not be captured.
  bool gave_up_capture() const noexcept { return abandoned_; }
  /// Before other CUDA calls are made inside a body: the error that it has left is its own.
  void keep_error() noexcept;
  bool in_body() const noexcept { return call_.logical != nullptr; }

  /// Of the body that runs, as its Queue has it.
  Stream& stream() const noexcept;

  // -- For the body --------------------------------------------------------------------------------------------------
  /// It is about to enqueue something: what it depends on comes first. Throws what went wrong there, so that the body
  /// enqueues nothing out of order; that is the task's failure.
  void order_or_throw();
  void wait_for(const PositionSet& positions, bool captured);
  /// Where kernels of the task at that place report. Throws CudaError.
  ErrorWord* error_word(Position at);
  /// It is about to block until the GPU has passed what may not have been launched yet. Where it is being captured, the
  /// batch is given up and its tasks are launched one by one: then this throws; what, nobody sees.
  void launch(const LogicalStream& logical, std::uint64_t sequence);
  /// It waits for what it has itself enqueued so far. Throws CudaError.
  void wait_for_own();

 private:
  void order_before_enqueue() noexcept;
  void call_body(const BodyCall& call, Closure& body);
  void call_among_legacy(const BodyCall& call, Closure& body);
  [[noreturn]] void give_up_capture();

  Gpu& gpu_;
  BodyCall call_;
  bool abandoned_ = false;
};

}  // namespace sluice::detail
