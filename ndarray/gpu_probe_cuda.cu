// Asks a GPU whether the kernels of this build run on it.
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

GpuBuild gpu_build() noexcept {
  return {k_capabilities.values, SLUICE_GPU_PTX};
}

}  // namespace sluice::detail
