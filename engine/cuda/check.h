#pragma once

#include <cuda_runtime_api.h>

#include <sluice/engine/export.h>

namespace sluice::cuda {

/// Throws CudaError naming `call` unless `status` is success; clears the error that CUDA keeps, so that the next call
/// does not find it again.
SLUICE_API void check_failed(cudaError_t status, const char* call);
inline void cuda_check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) [[unlikely]]
    check_failed(status, call);
}

}  // namespace sluice::cuda
