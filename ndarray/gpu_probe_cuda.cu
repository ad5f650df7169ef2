// Asks a GPU whether the kernels of this build run on it.
#include <atomic>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/handle.h>
#include <sluice/ndarray/detail/gpu_build.h>

namespace sluice::detail {
namespace {

__global__ void probe_kernel() {}

constexpr int k_built[] = {__CUDA_ARCH_LIST__};  // nvcc's: 900 for 9.0, what it compiled device code for
constexpr std::size_t k_count = sizeof k_built / sizeof *k_built;

struct Capabilities {
  int values[k_count] = {};
  constexpr Capabilities() {
    for (std::size_t i = 0; i < k_count; ++i)
      values[i] = k_built[i] / 10;
  }
};
constexpr Capabilities k_capabilities;

/// What CUDA says where a program has no code that a GPU can run.
bool is_refusal(cudaError_t result) {
  switch (result) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
      return true;
    default:
      return false;
  }
}

}  // namespace

GpuFacts probe_gpu(int index) {
  const cuda::DeviceScope scope(index);
  cudaFuncAttributes attributes{};
  const cudaError_t result = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (!is_refusal(result)) {
    cuda::cuda_check(result, "cudaFuncGetAttributes");
    return {};
  }
  cudaGetLastError();
  cudaDeviceProp properties{};
  cuda::cuda_check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return {properties.name, 10 * properties.major + properties.minor, cudaGetErrorString(result)};
}

// ptxVersion is what nvcc compiled for, and so what start_early() saw, whatever the GPU made of that.
bool kernels_wait_themselves() noexcept {
  constexpr int k_known = 64;
  static std::atomic<int> known[k_known];  // 0: not asked
  int gpu = 0;
  if (cudaGetDevice(&gpu) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  if (gpu < k_known && known[gpu].load(std::memory_order_relaxed) != 0)
    return known[gpu].load(std::memory_order_relaxed) >= 90;
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, probe_kernel) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  if (gpu < k_known)
    known[gpu].store(attributes.ptxVersion, std::memory_order_relaxed);
  return attributes.ptxVersion >= 90;
}

GpuBuild gpu_build() noexcept {
  return {k_capabilities.values, SLUICE_GPU_PTX};
}

}  // namespace sluice::detail
