#include <sluice/engine/cuda/sleepers.h>

namespace sluice::detail {

using cuda::cuda_check;

Sleepers::Sleeper Sleepers::take(Device device) {
  {
    const std::lock_guard hold(mutex_);
    auto& idle = idle_[device.index];
    if (!idle.empty()) {
      Sleeper sleeper = std::move(idle.back());
      idle.pop_back();
      return sleeper;
    }
  }
  Sleeper sleeper;
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  sleeper.stream = cuda::StreamHandle(stream);
  cudaEvent_t wake = nullptr;
  cuda_check(
      cudaEventCreateWithFlags(&wake, cudaEventDisableTiming | cudaEventBlockingSync), "cudaEventCreateWithFlags");
  sleeper.wake = cuda::EventHandle(wake);
  return sleeper;
}

// On a stream of the waiter's own, a blocking-sync event behind the one waited for. It stands for the event as it is
// now, whatever is recorded with it later.
void Sleepers::sleep_until(Device device, cudaEvent_t event) {
  const cuda::DeviceScope on(device.index);
  Sleeper sleeper = take(device);
  cuda_check(cudaStreamWaitEvent(sleeper.stream.get(), event, 0), "cudaStreamWaitEvent");
  cuda_check(cudaEventRecord(sleeper.wake.get(), sleeper.stream.get()), "cudaEventRecord");
  cuda_check(cudaEventSynchronize(sleeper.wake.get()), "cudaEventSynchronize");
  const std::lock_guard hold(mutex_);
  idle_[device.index].push_back(std::move(sleeper));
}

}  // namespace sluice::detail
