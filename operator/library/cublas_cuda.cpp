#include <sluice/engine/error.h>
#include <sluice/operator/library/cublas_cuda.h>
#include <sluice/operator/library/shared_library.h>

namespace sluice::detail {

CublasCalls cublas_calls;

SharedLibrary& cublas_library() {
  static auto* const library = new SharedLibrary(
      {"cuBLASLt " SLUICE_TEXT(CUBLAS_VER_MAJOR),
       "libcublasLt.so." SLUICE_TEXT(CUBLAS_VER_MAJOR),
       "cuBLAS " SLUICE_TEXT(CUBLAS_VER_MAJOR) " (of the CUDA toolkit, or libcublas in NVIDIA's package archives)"},
      [](const SharedLibrary& loaded) {
#define SLUICE_FIND(name) loaded.find(#name, cublas_calls.name);
        SLUICE_CUBLAS_CALLS(SLUICE_FIND)
#undef SLUICE_FIND
      });
  return *library;
}

void cublas_check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw CudaError(message(call, ": ", cublas_calls.cublasLtGetStatusString(status)), static_cast<int>(status));
}

Cublas::Cublas(const Queue&) {
  cublasLtHandle_t handle = nullptr;
  cublas_check(cublas_calls.cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

}  // namespace sluice::detail
