#pragma once

// Kernels that NVRTC would compile, for a simulated GPU: their sources were compiled for the host with the test.
#include <string_view>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "tests/support/device_sim/device.h"

namespace device_sim {

/// Enqueues a kernel whose arguments stand at `parameters`, which it copies.
using HostKernel = void (*)(dim3 blocks, dim3 threads, void** parameters, cudaStream_t stream);

struct HostSource {
  std::string_view text;
  std::vector<HostKernel> kernels;
};

/// All of the program; files of them add theirs before main().
std::vector<HostSource>& host_sources();
/// How many of their kernels were launched.
long& host_launches() noexcept;

template <class... P, std::size_t... place>
void launch_with(void (*kernel)(P...), const Config& config, void** parameters, std::index_sequence<place...>) {
  ++host_launches();
  launch(
      config, [kernel](const P&... values) { kernel(values...); }, *static_cast<P*>(parameters[place])...);
}

/// A HostKernel of a kernel.
template <auto kernel>
void launched(dim3 blocks, dim3 threads, void** parameters, cudaStream_t stream) {
  const auto of = []<class... P>(void (*)(P...)) { return std::index_sequence_for<P...>(); };
  launch_with(kernel, Config(blocks, threads, 0, stream), parameters, of(kernel));
}

}  // namespace device_sim
