#include "tests/support/device_sim/rtc.h"

#include <algorithm>

#include <sluice/engine/device.h>
#include <sluice/engine/error.h>
#include <sluice/operator/rtc/code.h>

std::vector<device_sim::RtcKernel>& device_sim::rtc_kernels() {
  static std::vector<RtcKernel> all;
  return all;
}

namespace sluice::rtc {

std::string why_not(int gpu) {
  return gpu < num_gpus() ? "" : "CUDA sources run on a GPU, and this process has none";
}

void prepare(const UserSource&, int) {}

Loaded load(const UserSource& source, const std::string& kernel, int) {
  const auto& all = device_sim::rtc_kernels();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == kernel; });
  require<ValueError>(found != all.end() && source.text.find(kernel) != std::string::npos, [&] {
    return message("rtc: the source has no kernel ", kernel);
  });
  return {.kernel = &*found, .most_threads = 1024, .most_shared = 48 << 10, .parameters = found->parameters};
}

void launch(const void* kernel, const LaunchShape& shape, void** parameters, void* stream) {
  const auto& [grid, block, shared] = shape;
  const device_sim::Config config(
      dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z), shared, static_cast<cudaStream_t>(stream));
  static_cast<const device_sim::RtcKernel*>(kernel)->launch(config, parameters);
}

}  // namespace sluice::rtc
