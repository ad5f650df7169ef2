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

/// Machine code ("cubin") for GPUs of `target`, all of `headers` at hand. Throws LibraryError with what NVRTC says.
std::string nvrtc_compile(const std::string& source, std::span<const fused::EmbeddedHeader> headers, int target);

}  // namespace sluice::detail
