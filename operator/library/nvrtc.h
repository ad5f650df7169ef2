#pragma once

#include <span>
#include <string>
#include <vector>

#include <sluice/operator/fused/headers.h>
#include <sluice/operator/library/shared_library.h>

// NVRTC, which compiles CUDA C++ at run time. It needs no GPU.
namespace sluice::detail {

/// Loads at first use; where it is missing programs run call by call.
SharedLibrary& nvrtc_library();

/// "13.0". Needs a loaded library, as do the others here.
std::string nvrtc_version();
/// Capabilities that it compiles for, written 90 for 9.0.
std::vector<int> nvrtc_capabilities();
/// Which of those a GPU of `capability` runs machine code of: itself, or the last one before it of its generation; 0 if
/// there is none.
int nvrtc_target(int capability, std::span<const int> known) noexcept;
/// The flags that elementwise kernels are compiled with by nvcc: see the project's meson.build.
std::span<const char* const> nvrtc_flags() noexcept;

/// 90 for a GPU of compute capability 9.0. Throws CudaError.
int gpu_capability(int gpu);
/// Why NVRTC compiles nothing for GPUs of that capability: it is missing, or older; "" if it does. Loads it.
std::string why_no_nvrtc(int capability);

/// What NVRTC is given.
struct NvrtcSource {
  const std::string& text;
  const char* name;  // of the file, in what it says
  std::span<const fused::EmbeddedHeader> headers = {};
  std::span<const char* const> flags = {};
};
/// Machine code ("cubin") for GPUs of `target`; where the source does not compile "", and what NVRTC says in `refusal`.
/// Throws LibraryError where NVRTC itself fails.
std::string nvrtc_compile(const NvrtcSource& source, int target, std::string& refusal);

}  // namespace sluice::detail
