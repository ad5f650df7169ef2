#pragma once

#include <cusolverDn.h>

#include <cublas_v2.h>

#include <sluice/engine/queue.h>
#include <sluice/operator/library/shared_library.h>

namespace sluice::detail {

/// What is called of cuSOLVER; filled once cusolver_library() is loaded.
#define SLUICE_CUSOLVER_CALLS(X) \
  X(cusolverDnCreate)            \
  X(cusolverDnCreateParams)      \
  X(cusolverDnDestroy)           \
  X(cusolverDnDestroyParams)     \
  X(cusolverDnDorgqr)            \
  X(cusolverDnDorgqr_bufferSize) \
  X(cusolverDnSetStream)         \
  X(cusolverDnSorgqr)            \
  X(cusolverDnSorgqr_bufferSize) \
  X(cusolverDnXgeqrf)            \
  X(cusolverDnXgeqrf_bufferSize) \
  X(cusolverDnXgesvd)            \
  X(cusolverDnXgesvd_bufferSize) \
  X(cusolverDnXgetrf)            \
  X(cusolverDnXgetrf_bufferSize) \
  X(cusolverDnXgetrs)            \
  X(cusolverDnXpotrf)            \
  X(cusolverDnXpotrf_bufferSize) \
  X(cusolverDnXsyevd)            \
  X(cusolverDnXsyevd_bufferSize)
/// What is called of cuBLAS; filled once trsm_library() is loaded.
#define SLUICE_TRSM_CALLS(X) \
  X(cublasCreate_v2)         \
  X(cublasDestroy_v2)        \
  X(cublasDtrsm_v2)          \
  X(cublasSetStream_v2)      \
  X(cublasStrsm_v2)
struct SolverCalls {
#define SLUICE_MEMBER(name) decltype(&::name) name = nullptr;
  SLUICE_CUSOLVER_CALLS(SLUICE_MEMBER)
  SLUICE_TRSM_CALLS(SLUICE_MEMBER)
#undef SLUICE_MEMBER
};

/// Both, as require_solver() loads them.
SharedLibrary& cusolver_library();
SharedLibrary& trsm_library();

/// cuSOLVER's and cuBLAS's handles of one stream: a slot of its Queue.
class Solver {
 public:
  explicit Solver(const Queue& queue);
  Solver(const Solver&) = delete;
  ~Solver();
  static Solver& of(const Queue& queue) { return queue.slot<Solver>(); }

  cusolverDnHandle_t handle() const noexcept { return handle_; }
  cusolverDnParams_t params() const noexcept { return params_; }
  cublasHandle_t blas() const noexcept { return blas_; }

 private:
  void destroy() noexcept;

  cusolverDnHandle_t handle_ = nullptr;
  cusolverDnParams_t params_ = nullptr;
  cublasHandle_t blas_ = nullptr;
};

}  // namespace sluice::detail
