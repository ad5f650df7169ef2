#include <sluice/engine/error.h>
#include <sluice/operator/library/cublas_cuda.h>

namespace sluice::detail {

void cublas_check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw CudaError(message(call, ": ", cublasLtGetStatusString(status)), static_cast<int>(status));
}

Cublas::Cublas(const Queue&) {
  cublasLtHandle_t handle = nullptr;
  cublas_check(cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

}  // namespace sluice::detail
