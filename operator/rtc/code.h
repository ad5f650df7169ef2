#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sluice/operator/fused/kept_code.h>
#include <sluice/operator/rtc/rtc.h>

// Sources of users as machine code: code.cpp by NVRTC, loaded_cuda.cpp on GPUs. On a simulated GPU kernels are
// functions of the host (tests/support/device_sim).
namespace sluice::rtc {

struct UserSource {
  std::string text;
  std::vector<std::string> options;  // of NVRTC
};

/// Machine code for GPUs of `target`: from disk, otherwise from NVRTC, which must be loaded, and then to disk, unless
/// the options bring files in that the key does not know. Throws ValueError, with what NVRTC says of which lines, for a
/// source that it does not compile, LibraryError where NVRTC itself fails.
std::string machine_code(const UserSource& source, int target, const fused::KeptCode& kept);
/// All that it depends on; "" if that is not known.
std::string key_of(const UserSource& source, int target);

/// A kernel on one GPU.
struct Loaded {
  const void* kernel = nullptr;
  unsigned most_threads = 0;                 // of a block
  std::size_t most_shared = 0;               // bytes that a launch may ask for
  std::vector<std::size_t> parameters = {};  // their sizes
};

/// Why GPU `gpu` runs no sources: there is none, or no NVRTC for it; "" if it does.
std::string why_not(int gpu);
/// Compiles the source for GPU `gpu` unless that was done before, for as long as the process lasts. Throws as
/// machine_code() does, CudaError.
void prepare(const UserSource& source, int gpu);
/// Its kernel of that name. Throws as prepare() does, ValueError where it has none, CudaError.
Loaded load(const UserSource& source, const std::string& kernel, int gpu);

/// Enqueues it; the arguments stand at `parameters`. Throws CudaError.
void launch(const void* kernel, const LaunchShape& shape, void** parameters, void* stream);

}  // namespace sluice::rtc
