#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/fused/kept_code.h>
#include <sluice/operator/fused/source.h>

// Programs compiled for a GPU: in memory, on disk, or by NVRTC.
namespace sluice::fused {

/// All that the machine code of `source` depends on.
std::string key_of(const Source& source, int target);
/// Machine code from disk, otherwise from NVRTC, which must be loaded, and then to disk. Throws LibraryError with the
/// source and what NVRTC says.
std::string code_of(const Source& source, int target, const KeptCode& kept);

/// The kernels of a program for one capability, ready to be launched on every GPU of it.
struct Compiled {
  Source source = {};
  std::array<const void*, 3> kernels = {};  // by Walk
  std::vector<std::uint64_t> numbers = {};  // Numbers<N> of detail/kernels.h
  bool starts_early = false;                // as kernels that begin with start_early()
  std::string problem = {};                 // why there are no kernels; empty if there are
};

/// For GPU `gpu`, compiled now if it was not before. `program` is kept by its address: to be one that stays. Any thread
/// may call it; who asks for a program that another thread compiles waits for it.
const Compiled& compiled(const Program& program, int gpu);
/// The same where it is there already, otherwise null; compiles nothing.
const Compiled* compiled_already(const Program& program, int gpu) noexcept;

/// Why no program can be compiled for GPU `gpu`: NVRTC is missing, or older than the GPU; empty if they can.
std::string why_not_compiled(int gpu);

/// Enqueues one of them on a cudaStream_t of its GPU; the parameters are those of detail/kernels.h.
void launch_kernel(const void* kernel, unsigned blocks, unsigned threads, void** parameters, void* stream);

}  // namespace sluice::fused
