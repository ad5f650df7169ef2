#pragma once

#include <span>
#include <string>

#include <sluice/engine/device.h>

namespace sluice::detail {

/// What the device code of a build is for. Capabilities are written 90 for 9.0.
struct GpuBuild {
  std::span<const int> capabilities = {};  // machine code, which runs on later minor versions of its major too
  int ptx = 0;                             // PTX, which a driver translates for this and any later GPU; 0 = none
};

/// What CUDA says of a GPU.
struct GpuFacts {
  std::string name = {};
  int capability = 0;
  std::string refusal = {};  // CUDA's words for a kernel of ours that has no code for it; "" if it has
};

/// True if machine code or PTX of `build` is for `capability`.
bool has_code_for(const GpuBuild& build, int capability) noexcept;

/// What to tell the user of a GPU on which kernels of ours have no code: "" where CUDA did not refuse.
std::string describe_refusal(Device device, const GpuFacts& gpu, const GpuBuild& build);

/// Throws DeviceError with why_unusable() for a GPU that the build does not serve. One load where it was asked before.
void require_served(Device device);

#ifdef SLUICE_CUDA
/// Loads a kernel of ours on GPU `index`.
GpuFacts probe_gpu(int index);
/// What nvcc was told.
GpuBuild gpu_build() noexcept;
/// False where the current GPU runs code that was made for one too old for programmatic dependent launch (before 9.0):
/// there kernels of ours do not wait by themselves. Known after the first question.
bool kernels_wait_themselves() noexcept;
#endif

}  // namespace sluice::detail
