#pragma once

#include <utility>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/device.h>

namespace sluice::cuda {

/// Owns a CUDA object. Destroys it without throwing: at the end of a process the driver may be gone before us.
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
    if (raw_ != nullptr)
      Destroy(raw_);
  }
  Raw get() const noexcept { return raw_; }

 private:
  Raw raw_ = nullptr;
};

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;

/// Makes a device current while it lives. Does not throw on leaving.
class DeviceScope {
 public:
  explicit DeviceScope(int index) {
    if (num_gpus() < 2)
      return;
    const bool known = cudaGetDevice(&before_) == cudaSuccess;  // else it is lost, and need not be current again
    if (!known || before_ != index)
      cuda_check(cudaSetDevice(index), "cudaSetDevice");
    changed_ = known && before_ != index;
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope() {
    if (changed_)
      cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace sluice::cuda
