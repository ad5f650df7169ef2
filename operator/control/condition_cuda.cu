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

__global__ void count_turn_kernel(
    const bool* holds, std::int64_t* turns, std::int64_t taken, std::int64_t most, bool* goes_on) {
  start_early();
  *turns += taken;
  *goes_on = *holds && *turns < most;
}

}  // namespace

void set_condition_gpu(const Queue& queue, unsigned long long handle, const void* byte) {
  const auto stream = sluice::detail::stream_of(queue);
  set_condition_kernel<<<1, 1, 0, stream>>>(handle, static_cast<const unsigned char*>(byte));
  sluice::detail::check_early_launch("cond", stream);
}

void count_turn_gpu(const KernelCall& call) {
  const auto& a = call.attributes.as<TurnAttributes>();
  const auto stream = sluice::detail::stream_of(call.queue);
  count_turn_kernel<<<1, 1, 0, stream>>>(
      call.inputs[0].as<const bool>(), call.inputs[1].as<std::int64_t>(), a.taken, a.most, call.outputs[0].as<bool>());
  sluice::detail::check_early_launch("while_loop", stream);
}

}  // namespace sluice::control
