#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/early_starts.h>
#include <sluice/engine/error.h>
#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/fused/headers.h>
#include <sluice/operator/fused/layout.h>
#include <sluice/operator/library/nvrtc.h>

namespace sluice::fused {

namespace {

using sluice::detail::gpu_capability;
using sluice::detail::why_no_nvrtc;

#if CUDART_VERSION >= 12080
/// Machine code in every GPU that it is for, to the end of the process.
std::array<const void*, 3> kernels_in(const std::string& code, const KernelSource& source) {
  cudaLibrary_t library = nullptr;
  cuda::cuda_check(
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
  std::array<const void*, 3> kernels{};
  for (std::size_t walk = 0; walk < source.kernels.size(); ++walk) {
    cudaKernel_t kernel = nullptr;
    cuda::cuda_check(cudaLibraryGetKernel(&kernel, library, source.kernels[walk]), "cudaLibraryGetKernel");
    kernels[walk] = static_cast<const void*>(kernel);
  }
  return kernels;
}
#else
std::array<const void*, 3> kernels_in(const std::string&, const KernelSource&) {
  throw LibraryError("kernels compiled at run time need a Sluice built with CUDA 12.8 or later");
}
#endif

/// Kernels by source and target: programs that differ in numbers alone share them.
class Modules {
 public:
  std::array<const void*, 3> get(const KernelSource& source, int target) {
    Module& module = *entry(key_of(source, target));
    const std::lock_guard hold(module.mutex);
    if (module.kernels[0] == nullptr)
      module.kernels = kernels_in(code_of(source, target, KeptCode::of_process()), source);
    return module.kernels;
  }

 private:
  struct Module {
    std::mutex mutex;  // of who compiles
    std::array<const void*, 3> kernels = {};
  };
  Module* entry(const std::string& key) {
    const std::lock_guard hold(mutex_);
    auto& made = modules_[key];
    if (made == nullptr)
      made = std::make_unique<Module>();
    return made.get();
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Module>> modules_;
};

Compiled compile(const Program& program, int capability, const Reduced& reduction) {
  static auto* const modules = new Modules;
  Compiled made;
  try {
    made.source = reduction ? source_of(program, *reduction) : source_of(program);
    require<UnsupportedError>(made.source.operands <= k_operands, [&] {
      return message("fused: a kernel takes ", k_operands, " arrays, the program has ", made.source.operands);
    });
    made.numbers = numbers_of(program);
    made.numbers.insert(made.numbers.begin(), 0);
    made.numbers.resize(std::max<std::size_t>(made.numbers.size(), 2));  // a kernel's array has one at least
    made.problem = why_no_nvrtc(capability);
    if (made.problem.empty()) {
      const int target = sluice::detail::nvrtc_target(capability, sluice::detail::nvrtc_capabilities());
      made.kernels = modules->get(made.source, target);
      made.starts_early = target >= 90;
    }
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    made.problem = error.message();
    std::fprintf(stderr, "sluice: a fused program runs call by call: %s\n", error.message().c_str());
  }
  return made;
}

struct ProgramKey {
  const Program* program;
  int capability;
  Reduced reduction;
  bool operator==(const ProgramKey&) const = default;
};
struct HashOfKey {
  std::size_t operator()(const ProgramKey& key) const noexcept {
    const std::size_t hash = std::hash<const void*>()(key.program) * 31 + static_cast<std::size_t>(key.capability);
    if (!key.reduction)
      return hash;
    const auto form =
        static_cast<std::size_t>(key.reduction->walk) * 32 + static_cast<std::size_t>(key.reduction->vector);
    return (hash * 31 + static_cast<std::size_t>(key.reduction->row)) * 127 + form;
  }
};

struct Programs {
  std::shared_mutex mutex;
  std::unordered_map<ProgramKey, std::unique_ptr<const Compiled>, HashOfKey> all;

  const Compiled* find(const ProgramKey& key) {
    const std::shared_lock hold(mutex);
    const auto at = all.find(key);
    return at == all.end() ? nullptr : at->second.get();
  }
};

Programs& programs() {
  static auto* const made = new Programs;
  return *made;
}

}  // namespace

std::string why_not_compiled(int gpu) {
  return why_no_nvrtc(gpu_capability(gpu));
}

const Compiled* compiled_already(const Program& program, int gpu, const Reduced& reduction) noexcept {
  return programs().find({&program, gpu_capability(gpu), reduction});
}

const Compiled& compiled(const Program& program, int gpu, const Reduced& reduction) {
  const ProgramKey key{&program, gpu_capability(gpu), reduction};
  if (const Compiled* const found = programs().find(key))
    return *found;
  auto made = std::make_unique<const Compiled>(compile(program, key.capability, reduction));
  const std::unique_lock hold(programs().mutex);
  return *programs().all.try_emplace(key, std::move(made)).first->second;
}

void launch_kernel(
    const Compiled& of, const void* kernel, unsigned blocks, Block threads, void** parameters, void* stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads.x, threads.y);
  config.stream = static_cast<cudaStream_t>(stream);
  cuda::cuda_check(cudaLaunchKernelExC(&config, kernel, parameters), "fused kernel");
  if (auto* const starts = sluice::detail::EarlyStarts::on(config.stream); starts != nullptr && of.starts_early)
    starts->note();
}

}  // namespace sluice::fused
