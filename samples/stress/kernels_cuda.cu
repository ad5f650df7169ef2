#include <sluice/engine/error.h>

#include "samples/stress/gpu.h"

namespace samples::stress {

namespace {

__global__ void work_kernel(Work work) {
  run_work(work);
}

}  // namespace

void enqueue_work(void* stream, const Work& work) {
  work_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(work);
  const cudaError_t status = cudaPeekAtLastError();
  if (status == cudaSuccess)
    return;
  cudaGetLastError();
  throw sluice::CudaError(
      sluice::message("stress: a launch failed: ", cudaGetErrorString(status)), static_cast<int>(status));
}

}  // namespace samples::stress
