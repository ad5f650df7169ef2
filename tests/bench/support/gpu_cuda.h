#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/api.h>
#include <sluice/engine/cuda/handle.h>

#include "tests/bench/support/bench.h"

// What benchmarks of GPU work share: CUDA by hand, to be timed beside the engine, and the engine's own options.
namespace sluice::bench {

/// Throws CudaError naming `call`.
inline void check(cudaError_t status, const char* call) {
  cuda::cuda_check(status, call);
}

using StreamOwner = cuda::StreamHandle;
using EventOwner = cuda::EventHandle;
using GraphOwner = cuda::Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecOwner = cuda::Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

inline StreamOwner new_stream(int priority = 0) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "cudaStreamCreateWithPriority");
  return StreamOwner(stream);
}

inline EventOwner new_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return EventOwner(event);
}

/// What `enqueue` puts on `stream` and on streams forked from it, as one executable graph.
template <class Enqueue>
GraphExecOwner captured(cudaStream_t stream, Enqueue enqueue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  enqueue();
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  const GraphOwner owner(graph);
  check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  return GraphExecOwner(exec);
}

inline void wait_for(cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/// Makes `later` wait for what is on `earlier` now.
inline void order(cudaStream_t earlier, cudaStream_t later, const EventOwner& event) {
  check(cudaEventRecord(event.get(), earlier), "cudaEventRecord");
  check(cudaStreamWaitEvent(later, event.get(), 0), "cudaStreamWaitEvent");
}

/// `size` elements in a GPU's memory; reading and writing them from the host blocks.
template <class T>
class GpuArray {
 public:
  explicit GpuArray(std::size_t size) : size_(size) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size * sizeof(T)), "cudaMalloc");
    data_.reset(static_cast<T*>(memory));
  }
  explicit GpuArray(const std::vector<T>& values) : GpuArray(values.size()) { assign(values); }

  T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  void assign(const std::vector<T>& values) {
    check(cudaMemcpy(data(), values.data(), size_ * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    check(cudaMemcpy(result.data(), data(), size_ * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    return result;
  }

 private:
  struct Free {
    void operator()(T* memory) const noexcept { cudaFree(memory); }
  };
  std::size_t size_;
  std::unique_ptr<T, Free> data_;
};

/// Zeroed elements in pinned host memory, which GPUs reach too.
template <class T>
class PinnedArray {
 public:
  explicit PinnedArray(std::size_t size) : size_(size) {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, size * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
    data_.reset(static_cast<T*>(memory));
    for (std::size_t i = 0; i < size; ++i)
      data()[i] = T{};
  }
  T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t i) const noexcept { return data()[i]; }

 private:
  struct Free {
    void operator()(T* memory) const noexcept { cudaFreeHost(memory); }
  };
  std::size_t size_;
  std::unique_ptr<T, Free> data_;
};

/// An engine's options with GPU tasks launched so.
inline EngineOptions launched(LaunchMode launch, EngineOptions options = {}) {
  options.launch = launch;
  return options;
}

/// Flags and device of a benchmark that measures GPU work alone.
class GpuBench {
 public:
  /// `launches`: the benchmark takes --launch.
  explicit GpuBench(Report& report, bool launches = true);

  /// True if there is a GPU to run on, which is then the current one; otherwise exit_code() says how to end.
  bool begin();
  int exit_code() const noexcept { return exit_code_; }
  Device device() const noexcept { return device_; }

  /// The engine's ways of launching that were asked for.
  std::vector<LaunchMode> launches() const {
    if (launch_ == "both")
      return {LaunchMode::direct, LaunchMode::batch};
    return {parse_launch_mode(launch_)};
  }

 private:
  Report& report_;
  std::string launch_ = "both";
  int exit_code_ = 0;
  Device device_ = gpu(0);
};

}  // namespace sluice::bench
