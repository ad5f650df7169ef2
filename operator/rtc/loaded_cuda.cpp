#include <memory>
#include <mutex>
#include <unordered_map>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/error.h>
#include <sluice/operator/library/nvrtc.h>
#include <sluice/operator/rtc/code.h>

namespace sluice::rtc {

namespace {

using cuda::cuda_check;

int target_for(int gpu) {
  const std::string problem = why_not(gpu);
  require<UnsupportedError>(problem.empty(), [&] { return message("rtc: ", problem); });
  return detail::nvrtc_target(detail::gpu_capability(gpu), detail::nvrtc_capabilities());
}

#if CUDART_VERSION >= 12080
using Library = cudaLibrary_t;

Library load_code(const std::string& code) {
  Library library = nullptr;
  cuda_check(
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
  return library;
}

const void* kernel_in(Library library, const std::string& name) {
  cudaKernel_t kernel = nullptr;
  const cudaError_t status = cudaLibraryGetKernel(&kernel, library, name.c_str());
  if (status == cudaErrorSymbolNotFound) {
    cudaGetLastError();
    throw ValueError(message(
        "rtc: the source has no kernel ", name, "; one that is to be found by its name is extern \"C\" __global__"));
  }
  cuda_check(status, "cudaLibraryGetKernel");
  return static_cast<const void*>(kernel);
}

std::vector<std::size_t> parameters_of(const void* kernel) {
  std::vector<std::size_t> sizes;
  std::size_t offset = 0, size = 0;
  while (cudaFuncGetParamInfo(kernel, sizes.size(), &offset, &size) == cudaSuccess)
    sizes.push_back(size);
  cudaGetLastError();  // there is no next one
  return sizes;
}
#else
using Library = const void*;

Library load_code(const std::string&) {
  throw UnsupportedError("rtc: sources compiled at run time need a Sluice built with CUDA 12.8 or later");
}
const void* kernel_in(Library, const std::string&) {
  return nullptr;
}
std::vector<std::size_t> parameters_of(const void*) {
  return {};
}
#endif

/// Code in every GPU that it is for, to the end of the process: nobody knows when graphs and streams have done with it.
class Libraries {
 public:
  Library get(const UserSource& source, int target) {
    Entry& entry = *entry_of(source, target);
    const std::lock_guard hold(entry.mutex);
    if (entry.library == nullptr)
      entry.library = load_code(machine_code(source, target, fused::KeptCode::of_process()));
    return entry.library;
  }

 private:
  struct Entry {
    std::mutex mutex;  // of who compiles
    Library library = nullptr;
  };
  Entry* entry_of(const UserSource& source, int target) {
    std::string key = message(target);
    for (const std::string& option : source.options)
      key += message('\n', option.size(), ' ', option);
    key += message('\n', source.text);
    const std::lock_guard hold(mutex_);
    auto& made = entries_[std::move(key)];
    if (made == nullptr)
      made = std::make_unique<Entry>();
    return made.get();
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Entry>> entries_;
};

Library library_of(const UserSource& source, int gpu) {
  static auto* const all = new Libraries;
  return all->get(source, target_for(gpu));
}

/// What a launch may ask for beyond what every GPU gives has to be asked for before.
std::size_t raise_shared(const void* kernel, const cudaFuncAttributes& attributes, int gpu) {
  int most = 0;
  cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), "cudaDeviceGetAttribute");
  const int wanted = most - static_cast<int>(attributes.sharedSizeBytes);
  const int given = attributes.maxDynamicSharedSizeBytes;
  if (wanted <= given)
    return static_cast<std::size_t>(given);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, wanted) == cudaSuccess)
    return static_cast<std::size_t>(wanted);
  cudaGetLastError();
  return static_cast<std::size_t>(given);
}

}  // namespace

std::string why_not(int gpu) {
  if (gpu >= num_gpus())
    return "CUDA sources run on a GPU, and this process has none";
  return detail::why_no_nvrtc(detail::gpu_capability(gpu));
}

void prepare(const UserSource& source, int gpu) {
  const cuda::DeviceScope on(gpu);
  library_of(source, gpu);
}

Loaded load(const UserSource& source, const std::string& kernel, int gpu) {
  const cuda::DeviceScope on(gpu);
  Loaded loaded{.kernel = kernel_in(library_of(source, gpu), kernel)};
  cudaFuncAttributes attributes{};
  cuda_check(cudaFuncGetAttributes(&attributes, loaded.kernel), "cudaFuncGetAttributes");
  loaded.most_threads = static_cast<unsigned>(attributes.maxThreadsPerBlock);
  loaded.most_shared = raise_shared(loaded.kernel, attributes, gpu);
  loaded.parameters = parameters_of(loaded.kernel);
  return loaded;
}

void launch(const void* kernel, const LaunchShape& shape, void** parameters, void* stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.grid.x, shape.grid.y, shape.grid.z);
  config.blockDim = dim3(shape.block.x, shape.block.y, shape.block.z);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  cuda_check(cudaLaunchKernelExC(&config, kernel, parameters), "rtc kernel");
}

}  // namespace sluice::rtc
