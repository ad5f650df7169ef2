#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/error.h>

namespace sluice::cuda {

/// Memory of the host that every GPU reaches at the same address. It is asked for through the GPU that is current; if
/// that one is lost, through the others.
inline cudaError_t allocate_portable(void** made, std::size_t bytes) noexcept {
  constexpr unsigned k_flags = cudaHostAllocMapped | cudaHostAllocPortable;
  const cudaError_t first = cudaHostAlloc(made, bytes, k_flags);
  int current = 0;
  if (first == cudaSuccess || first == cudaErrorMemoryAllocation || num_gpus() < 2)
    return first;
  cudaGetLastError();
  if (cudaGetDevice(&current) != cudaSuccess) {
    current = -1;
    cudaGetLastError();
  }
  for (int index = 0; index < num_gpus(); ++index) {
    if (index == current)
      continue;
    try {
      const DeviceScope scope(index);
      if (cudaHostAlloc(made, bytes, k_flags) == cudaSuccess)
        return cudaSuccess;
    } catch (const CudaError&) {  // lost as well
    }
    cudaGetLastError();
  }
  return first;
}

/// The thread is left no error of it, as by a Handle.
inline void free_portable(void* memory) noexcept {
  if (cudaFreeHost(memory) != cudaSuccess)
    cudaGetLastError();
}

}  // namespace sluice::cuda
