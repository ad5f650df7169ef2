#pragma once

// Kernels of sources that programs hand to rtc::CudaModule, for a simulated GPU: functions of the host, found by name.
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/support/device_sim/compiled.h"

namespace device_sim {

struct RtcKernel {
  std::string_view name;
  void (*launch)(const Config& config, void** parameters);
  std::vector<std::size_t> parameters;  // their sizes
};

/// All of the program; files of them add theirs before main().
std::vector<RtcKernel>& rtc_kernels();

template <auto kernel>
RtcKernel rtc_kernel(std::string_view name) {
  const auto sizes = []<class... P>(void (*)(P...)) { return std::vector<std::size_t>{sizeof(P)...}; };
  const auto launch = [](const Config& config, void** parameters) {
    const auto of = []<class... P>(void (*)(P...)) { return std::index_sequence_for<P...>(); };
    launch_with(kernel, config, parameters, of(kernel));
  };
  return {name, launch, sizes(kernel)};
}

}  // namespace device_sim
