#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/operator/fused/kept_code.h>
#include <sluice/operator/fused/source.h>

// Programs compiled for a GPU: in memory, on disk, or by NVRTC.
namespace sluice::fused {

/// All that the machine code of `source` depends on.
std::string key_of(const KernelSource& source, int target);
/// Machine code from disk, otherwise from NVRTC, which must be loaded, and then to disk. Throws LibraryError with the
/// source and what NVRTC says.
std::string code_of(const KernelSource& source, int target, const KeptCode& kept);

/// The kernels of a program for one capability, ready to be launched on every GPU of it.
struct Compiled {
  KernelSource source = {};
  std::array<const void*, 3> kernels = {};  // by Walk; of a reduction: together, apart
  std::vector<std::uint64_t> numbers = {};  // Numbers<N> of detail/kernels.h
  bool starts_early = false;                // as kernels that begin with start_early()
  std::string problem = {};                 // why there are no kernels; empty if there are
};

/// For GPU `gpu`, compiled now if it was not before. `program` is kept by its address: to be one that stays. Any thread
/// may call it; who asks for a program that another thread compiles waits for it. With `reduction`: the kernel that
/// takes in what the program gives.
using Reduced = std::optional<ReductionKernel>;
const Compiled& compiled(const Program& program, int gpu, const Reduced& reduction = {});
/// The same where it is there already, otherwise null; compiles nothing.
const Compiled* compiled_already(const Program& program, int gpu, const Reduced& reduction = {}) noexcept;

/// Why no program can be compiled for GPU `gpu`: NVRTC is missing, or older than the GPU; empty if they can.
std::string why_not_compiled(int gpu);

/// Threads of a block.
struct Block {
  unsigned x = 1, y = 1;
};
/// Enqueues one of its kernels on a cudaStream_t of its GPU; the parameters are those of its source.
void launch_kernel(
    const Compiled& of, const void* kernel, unsigned blocks, Block threads, void** parameters, void* stream);

}  // namespace sluice::fused
