#pragma once

#include <cstddef>
#include <cusolverDn.h>
#include <memory>
#include <string>
#include <type_traits>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <sluice/engine/api.h>

// cuBLAS and cuSOLVER as slots of the engine's streams: whichever stream runs a task, its handles are there, with
// scratch memory of their own, so that tasks on other streams may use theirs at the same time.
namespace samples {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw sluice::CudaError(sluice::message(call, ": ", cudaGetErrorString(status)), static_cast<int>(status));
}
inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw sluice::CudaError(sluice::message(call, ": ", cublasGetStatusString(status)), static_cast<int>(status));
}
inline void check(cusolverStatus_t status, const char* call) {
  if (status != CUSOLVER_STATUS_SUCCESS)
    throw sluice::CudaError(sluice::message(call, ": status ", status), static_cast<int>(status));
}

/// What a library made, and how it is destroyed; movable.
template <class Raw, auto Destroy>
struct LibraryDeleter {
  using pointer = Raw;
  void operator()(Raw raw) const noexcept { Destroy(raw); }
};
template <class Raw, auto Destroy>
using LibraryOwned = std::unique_ptr<std::remove_pointer_t<Raw>, LibraryDeleter<Raw, Destroy>>;

/// Bytes in a GPU's memory that grow on demand.
class GpuScratch {
 public:
  void* at_least(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      void* memory = nullptr;
      check(cudaMalloc(&memory, bytes), "cudaMalloc");
      memory_.reset(memory);
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  LibraryOwned<void*, cudaFree> memory_;
  std::size_t bytes_ = 0;
};

/// cuBLAS for one stream.
class Blas {
 public:
  explicit Blas(const sluice::Queue& queue) : Blas(static_cast<cudaStream_t>(queue.stream())) {}
  explicit Blas(cudaStream_t stream) {
    constexpr std::size_t k_bytes = std::size_t{32} << 20;  // what cuBLAS recommends for Hopper
    cublasHandle_t handle = nullptr;
    check(cublasCreate(&handle), "cublasCreate");
    handle_.reset(handle);
    check(cublasSetStream(handle, stream), "cublasSetStream");
    check(cublasSetWorkspace(handle, scratch_.at_least(k_bytes), k_bytes), "cublasSetWorkspace");
  }
  cublasHandle_t handle() const noexcept { return handle_.get(); }

 private:
  GpuScratch scratch_;  // outlives the handle
  LibraryOwned<cublasHandle_t, cublasDestroy> handle_;
};

/// cuSOLVER for one stream.
class Solver {
 public:
  explicit Solver(const sluice::Queue& queue) : Solver(static_cast<cudaStream_t>(queue.stream())) {}
  explicit Solver(cudaStream_t stream) {
    cusolverDnHandle_t handle = nullptr;
    check(cusolverDnCreate(&handle), "cusolverDnCreate");
    handle_.reset(handle);
    check(cusolverDnSetStream(handle, stream), "cusolverDnSetStream");
  }
  cusolverDnHandle_t handle() const noexcept { return handle_.get(); }

  /// Factors one tile in place; the row of a pivot that is not positive, or 0, goes to `info`.
  void factor(double* tile, int n, int stride, int* info) {
    int doubles = 0;
    check(
        cusolverDnDpotrf_bufferSize(handle(), CUBLAS_FILL_MODE_LOWER, n, tile, stride, &doubles),
        "cusolverDnDpotrf_bufferSize");
    auto* scratch = static_cast<double*>(scratch_.at_least(static_cast<std::size_t>(doubles) * sizeof(double)));
    check(
        cusolverDnDpotrf(handle(), CUBLAS_FILL_MODE_LOWER, n, tile, stride, scratch, doubles, info),
        "cusolverDnDpotrf");
  }

 private:
  GpuScratch scratch_;
  LibraryOwned<cusolverDnHandle_t, cusolverDnDestroy> handle_;
};

}  // namespace samples
