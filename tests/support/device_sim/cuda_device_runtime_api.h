#pragma once

// What kernels on the simulated GPU may call of the runtime, beside what device.h says.
#pragma GCC system_header
#include_next <cuda_device_runtime_api.h>

namespace device_sim {
/// What the branch of a graph is chosen by.
void set_condition(unsigned long long handle, unsigned value) noexcept;
}  // namespace device_sim

inline void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) {
  ::device_sim::set_condition(handle, value);
}
