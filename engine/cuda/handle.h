#pragma once

#include <utility>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/device.h>

namespace sluice::cuda {

/// Owns a CUDA object. Destroys it without throwing: at the end of a process the driver may be gone before us. The
/// thread is left no error of that, which would keep launches of its own from it.
template <class Raw, cudaError_t (*Destroy)(Raw)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(Raw raw) noexcept : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() {
    if (raw_ != nullptr && Destroy(raw_) != cudaSuccess)
      cudaGetLastError();
  }
  Raw get() const noexcept { return raw_; }

 private:
  Raw raw_ = nullptr;
};

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;

/// What is enqueued on `later` from now on comes after what `earlier` holds now. Throws CudaError.
inline void order_streams(cudaStream_t earlier, cudaStream_t later) {
  cudaEvent_t raw = nullptr;
  cuda_check(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  const EventHandle event(raw);
  cuda_check(cudaEventRecord(raw, earlier), "cudaEventRecord");
  cuda_check(cudaStreamWaitEvent(later, raw, 0), "cudaStreamWaitEvent");
}

/// Makes a device current while it lives. Does not throw on leaving.
class DeviceScope {
 public:
  explicit DeviceScope(int index) {
    if (num_gpus() < 2)
      return;
    const bool known = cudaGetDevice(&before_) == cudaSuccess;  // else it is lost, and need not be current again
    if (!known)
      cudaGetLastError();
    if (!known || before_ != index)
      cuda_check(cudaSetDevice(index), "cudaSetDevice");
    changed_ = known && before_ != index;
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope() {
    if (changed_ && cudaSetDevice(before_) != cudaSuccess)
      cudaGetLastError();
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace sluice::cuda
