#include <cstring>

#include <cuda_runtime_api.h>

#include <sluice/engine/error.h>

#include "samples/stress/gpu.h"

namespace samples::stress {

using namespace sluice;

namespace {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess)
    return;
  cudaGetLastError();
  throw CudaError(message("stress: ", call, ": ", cudaGetErrorString(status)), static_cast<int>(status));
}

/// Makes a GPU the thread's current one while it lives.
class OnGpu {
 public:
  explicit OnGpu(int gpu) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    check(cudaSetDevice(gpu), "cudaSetDevice");
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() { cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

cudaStream_t native(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace

Memory Memory::on_gpu(int gpu, std::size_t bytes) {
  const OnGpu on(gpu);
  void* made = nullptr;
  check(cudaMalloc(&made, bytes), "cudaMalloc");
  Memory memory(made, [](void* old) { cudaFree(old); });
  check(cudaMemset(made, 0, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // cudaMemset does not wait
  return memory;
}

Memory Memory::pinned(std::size_t bytes) {
  void* made = nullptr;
  check(cudaHostAlloc(&made, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  std::memset(made, 0, bytes);
  return {made, [](void* old) { cudaFreeHost(old); }};
}

void copy_and_wait(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  // Out of pageable memory it returns when the bytes are staged, before they have arrived.
  check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
}

void enqueue_copy(void* stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "cudaMemcpyAsync");
}

ForeignStream::ForeignStream(int gpu) : gpu_(gpu) {
  const OnGpu on(gpu);
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_ = made;
}

ForeignStream::~ForeignStream() {
  cudaStreamDestroy(native(stream_));
}

void ForeignStream::launch(const Work& work) const {
  const OnGpu on(gpu_);
  enqueue_work(stream_, work);
}

}  // namespace samples::stress
