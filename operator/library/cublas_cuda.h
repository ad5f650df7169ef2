#pragma once

#include <memory>

#include <cublasLt.h>

#include <sluice/engine/queue.h>
#include <sluice/operator/library/cache.h>

namespace sluice::detail {

/// What is called of cuBLASLt; filled once cublas_library() is loaded.
#define SLUICE_CUBLAS_CALLS(X)            \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetStatusString)              \
  X(cublasLtGetVersion)                   \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoCapGetAttribute)    \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoConfigSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoGetIds)             \
  X(cublasLtMatmulAlgoInit)               \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)
struct CublasCalls {
#define SLUICE_MEMBER(name) decltype(&::name) name = nullptr;
  SLUICE_CUBLAS_CALLS(SLUICE_MEMBER)
#undef SLUICE_MEMBER
};
extern CublasCalls cublas_calls;

/// Throws CudaError naming `call` and cuBLAS's text for it unless `status` is success.
void cublas_check(cublasStatus_t status, const char* call);

/// Owns an object of cuBLASLt.
template <class Raw, auto Destroy>
struct CublasDeleter {
  using pointer = Raw;
  void operator()(Raw raw) const noexcept { (cublas_calls.*Destroy)(raw); }
};
template <class Raw, auto Destroy>
using CublasOwned = std::unique_ptr<std::remove_pointer_t<Raw>, CublasDeleter<Raw, Destroy>>;

using CublasHandle = CublasOwned<cublasLtHandle_t, &CublasCalls::cublasLtDestroy>;
using CublasProduct = CublasOwned<cublasLtMatmulDesc_t, &CublasCalls::cublasLtMatmulDescDestroy>;
using CublasLayout = CublasOwned<cublasLtMatrixLayout_t, &CublasCalls::cublasLtMatrixLayoutDestroy>;
using CublasPreference = CublasOwned<cublasLtMatmulPreference_t, &CublasCalls::cublasLtMatmulPreferenceDestroy>;

/// A product that cuBLASLt has chosen an algorithm for.
struct CublasPlan {
  CublasProduct product;
  CublasLayout a, b, c;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t type = CUDA_R_32F, scale = CUDA_R_32F;  // of a, b and c; of what a product is multiplied with
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
  bool fused = false;  // the epilogue is part of it; otherwise kernels of ours follow
};

/// cuBLASLt for one stream: a slot of its Queue. Plans carry the pointer of the bias, so they are the stream's own.
class Cublas {
 public:
  explicit Cublas(const Queue&);
  static Cublas& of(const Queue& queue) { return queue.slot<Cublas>(); }

  cublasLtHandle_t handle() const noexcept { return handle_.get(); }
  LibraryCache<CublasPlan>& plans() noexcept { return plans_; }

 private:
  CublasHandle handle_;
  LibraryCache<CublasPlan> plans_{256};
};

}  // namespace sluice::detail
