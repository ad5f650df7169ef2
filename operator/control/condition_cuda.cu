#include <cuda_device_runtime_api.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/control/condition.h>
#include <sluice/operator/library/launch.cuh>

namespace sluice::control {

namespace {

using sluice::detail::start_early;

__global__ void set_condition_kernel(cudaGraphConditionalHandle handle, const unsigned char* byte) {
  start_early();
  cudaGraphSetConditional(handle, *byte);
}

}  // namespace

void set_condition_gpu(const Queue& queue, unsigned long long handle, const void* byte) {
  const auto stream = sluice::detail::stream_of(queue);
  set_condition_kernel<<<1, 1, 0, stream>>>(handle, static_cast<const unsigned char*>(byte));
  sluice::detail::check_early_launch("cond", stream);
}

}  // namespace sluice::control
