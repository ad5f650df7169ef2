#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/linalg/solver_cuda.h>
#include <sluice/operator/linalg/steps_gpu.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

SolverCalls g_calls;

void check(cusolverStatus_t status, const char* call) {
  if (status != CUSOLVER_STATUS_SUCCESS) [[unlikely]]
    throw CudaError(message(call, ": cuSOLVER's status ", static_cast<int>(status)), static_cast<int>(status));
}
void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw CudaError(message(call, ": cuBLAS's status ", static_cast<int>(status)), static_cast<int>(status));
}

cudaDataType type_of(const GpuStep& step) {
  return step.dtype == DType::float64 ? CUDA_R_64F : CUDA_R_32F;
}

/// Where matrix `i` begins, of so many numbers each.
template <class P>
P* matrix_at(const GpuStep& step, P* first, std::int64_t i, std::int64_t each) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  return static_cast<Byte*>(first) + i * each * static_cast<std::int64_t>(size_of(step.dtype));
}

/// What a call of cuSOLVER works with, on the device and on the host.
struct Work {
  void* device;
  std::size_t device_bytes;
  void* host;
  std::size_t host_bytes;
};

/// Asks how much work memory a call needs, and makes it for each matrix. They come one after the other on the device,
/// so that one memory serves all; on the host nothing is read once a call has returned.
template <class Ask, class Run>
void for_each_matrix(const GpuStep& step, const char* call, const Ask& ask, const Run& run) {
  const Solver& solver = Solver::of(step.queue);
  Work work{};
  check(ask(solver.handle(), solver.params(), &work.device_bytes, &work.host_bytes), call);
  const Workspace device(step.queue, work.device_bytes);
  std::vector<std::byte> host(work.host_bytes);
  work.device = device.data();
  work.host = host.data();
  for (std::int64_t i = 0; i < step.count; ++i)
    check(run(solver.handle(), solver.params(), i, work), call);
}

}  // namespace

SharedLibrary& cusolver_library() {
  static auto* const library = new SharedLibrary(
      {"cuSOLVER " SLUICE_TEXT(CUSOLVER_VER_MAJOR),
       "libcusolver.so." SLUICE_TEXT(CUSOLVER_VER_MAJOR),
       "cuSOLVER " SLUICE_TEXT(
           CUSOLVER_VER_MAJOR) " (of the CUDA toolkit, or libcusolver in NVIDIA's package archives)"},
      [](const SharedLibrary& loaded) {
#define SLUICE_FIND(name) loaded.find(#name, g_calls.name);
        SLUICE_CUSOLVER_CALLS(SLUICE_FIND)
#undef SLUICE_FIND
      });
  return *library;
}

SharedLibrary& trsm_library() {
  static auto* const library = new SharedLibrary(
      {"cuBLAS " SLUICE_TEXT(CUBLAS_VER_MAJOR),
       "libcublas.so." SLUICE_TEXT(CUBLAS_VER_MAJOR),
       "cuBLAS " SLUICE_TEXT(CUBLAS_VER_MAJOR) " (of the CUDA toolkit, or libcublas in NVIDIA's package archives)"},
      [](const SharedLibrary& loaded) {
#define SLUICE_FIND(name) loaded.find(#name, g_calls.name);
        SLUICE_TRSM_CALLS(SLUICE_FIND)
#undef SLUICE_FIND
      });
  return *library;
}

void require_solver(const char* op) {
  trsm_library().require(op);
  cusolver_library().require(op);
}

Solver::Solver(const Queue& queue) {
  const cudaStream_t stream = stream_of(queue);
  try {
    check(g_calls.cusolverDnCreate(&handle_), "cusolverDnCreate");
    check(g_calls.cusolverDnSetStream(handle_, stream), "cusolverDnSetStream");
    check(g_calls.cusolverDnCreateParams(&params_), "cusolverDnCreateParams");
    check(g_calls.cublasCreate_v2(&blas_), "cublasCreate");
    check(g_calls.cublasSetStream_v2(blas_, stream), "cublasSetStream");
  } catch (...) {
    destroy();
    throw;
  }
}

Solver::~Solver() {
  destroy();
}

void Solver::destroy() noexcept {
  if (blas_ != nullptr)
    g_calls.cublasDestroy_v2(blas_);
  if (params_ != nullptr)
    g_calls.cusolverDnDestroyParams(params_);
  if (handle_ != nullptr)
    g_calls.cusolverDnDestroy(handle_);
}

void solver_potrf(const GpuStep& step, std::int64_t n, void* a, int* info) {
  const cudaDataType type = type_of(step);
  constexpr cublasFillMode_t upper = CUBLAS_FILL_MODE_UPPER;
  const auto ask = [&](auto handle, auto params, std::size_t* device, std::size_t* host) {
    return g_calls.cusolverDnXpotrf_bufferSize(handle, params, upper, n, type, a, n, type, device, host);
  };
  for_each_matrix(step, "cusolverDnXpotrf", ask, [&](auto handle, auto params, std::int64_t i, const Work& work) {
    void* const matrix = matrix_at(step, a, i, n * n);
    return g_calls.cusolverDnXpotrf(
        handle,
        params,
        upper,
        n,
        type,
        matrix,
        n,
        type,
        work.device,
        work.device_bytes,
        work.host,
        work.host_bytes,
        info + i);
  });
}

void solver_trsm(
    const GpuStep& step,
    bool upper,
    bool transposed,
    bool unit_diagonal,
    std::int64_t m,
    std::int64_t n,
    const void* a,
    void* b) {
  const cublasHandle_t blas = Solver::of(step.queue).blas();
  const cublasFillMode_t uplo = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasDiagType_t diagonal = unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  const int rows = static_cast<int>(m), columns = static_cast<int>(n);
  for (std::int64_t i = 0; i < step.count; ++i) {
    const auto solve = [&]<class T>(const auto& trsm, T one) {
      return trsm(
          blas,
          CUBLAS_SIDE_RIGHT,
          uplo,
          operation,
          diagonal,
          rows,
          columns,
          &one,
          static_cast<const T*>(matrix_at(step, a, i, n * n)),
          columns,
          static_cast<T*>(matrix_at(step, b, i, m * n)),
          rows);
    };
    const bool wide = step.dtype == DType::float64;
    check(wide ? solve(g_calls.cublasDtrsm_v2, 1.0) : solve(g_calls.cublasStrsm_v2, 1.0f), "cublas trsm");
  }
}

void solver_getrf(const GpuStep& step, std::int64_t n, void* a, std::int64_t* pivots, int* info) {
  const cudaDataType type = type_of(step);
  const auto ask = [&](auto handle, auto params, std::size_t* device, std::size_t* host) {
    return g_calls.cusolverDnXgetrf_bufferSize(handle, params, n, n, type, a, n, type, device, host);
  };
  for_each_matrix(step, "cusolverDnXgetrf", ask, [&](auto handle, auto params, std::int64_t i, const Work& work) {
    void* const matrix = matrix_at(step, a, i, n * n);
    return g_calls.cusolverDnXgetrf(
        handle,
        params,
        n,
        n,
        type,
        matrix,
        n,
        pivots + i * n,
        type,
        work.device,
        work.device_bytes,
        work.host,
        work.host_bytes,
        info + i);
  });
}

void solver_getrs(
    const GpuStep& step,
    bool transposed,
    std::int64_t n,
    std::int64_t columns,
    const void* a,
    const std::int64_t* pivots,
    void* b) {
  const Solver& solver = Solver::of(step.queue);
  const cudaDataType type = type_of(step);
  const Workspace info(step.queue, sizeof(int));  // says only whether the arguments are good
  for (std::int64_t i = 0; i < step.count; ++i) {
    check(
        g_calls.cusolverDnXgetrs(
            solver.handle(),
            solver.params(),
            transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
            n,
            columns,
            type,
            matrix_at(step, a, i, n * n),
            n,
            pivots + i * n,
            type,
            matrix_at(step, b, i, n * columns),
            n,
            info.as<int>()),
        "cusolverDnXgetrs");
  }
}

void solver_geqrf(const GpuStep& step, std::int64_t m, std::int64_t n, void* a, void* tau) {
  const cudaDataType type = type_of(step);
  const Workspace info(step.queue, sizeof(int));
  const auto ask = [&](auto handle, auto params, std::size_t* device, std::size_t* host) {
    return g_calls.cusolverDnXgeqrf_bufferSize(handle, params, m, n, type, a, m, type, tau, type, device, host);
  };
  for_each_matrix(step, "cusolverDnXgeqrf", ask, [&](auto handle, auto params, std::int64_t i, const Work& work) {
    void *const matrix = matrix_at(step, a, i, m * n), *const scales = matrix_at(step, tau, i, std::min(m, n));
    return g_calls.cusolverDnXgeqrf(
        handle,
        params,
        m,
        n,
        type,
        matrix,
        m,
        type,
        scales,
        type,
        work.device,
        work.device_bytes,
        work.host,
        work.host_bytes,
        info.as<int>());
  });
}

void solver_orgqr(const GpuStep& step, std::int64_t m, std::int64_t n, std::int64_t k, void* a, const void* tau) {
  const cusolverDnHandle_t handle = Solver::of(step.queue).handle();
  const int rows = static_cast<int>(m), columns = static_cast<int>(k);
  const Workspace info(step.queue, sizeof(int));
  const auto run = [&]<class T>(const auto& ask, const auto& call, T) {
    int size = 0;
    const T* const scales = static_cast<const T*>(tau);
    check(
        ask(handle, rows, columns, columns, static_cast<const T*>(a), rows, scales, &size),
        "cusolverDn orgqr_bufferSize");
    const Workspace work(step.queue, static_cast<std::size_t>(size) * sizeof(T));
    for (std::int64_t i = 0; i < step.count; ++i) {
      check(
          call(
              handle,
              rows,
              columns,
              columns,
              static_cast<T*>(a) + i * m * n,
              rows,
              scales + i * k,
              work.as<T>(),
              size,
              info.as<int>()),
          "cusolverDn orgqr");
    }
  };
  if (step.dtype == DType::float64)
    run(g_calls.cusolverDnDorgqr_bufferSize, g_calls.cusolverDnDorgqr, double{});
  else
    run(g_calls.cusolverDnSorgqr_bufferSize, g_calls.cusolverDnSorgqr, float{});
}

void solver_gesvd(const GpuStep& step, std::int64_t m, std::int64_t n, void* a, void* s, void* u, void* vt, int* info) {
  const cudaDataType type = type_of(step);
  const auto ask = [&](auto handle, auto params, std::size_t* device, std::size_t* host) {
    return g_calls.cusolverDnXgesvd_bufferSize(
        handle, params, 'S', 'S', m, n, type, a, m, type, s, type, u, m, type, vt, n, type, device, host);
  };
  for_each_matrix(step, "cusolverDnXgesvd", ask, [&](auto handle, auto params, std::int64_t i, const Work& work) {
    void *const matrix = matrix_at(step, a, i, m * n), *const values = matrix_at(step, s, i, n);
    void *const left = matrix_at(step, u, i, m * n), *const right = matrix_at(step, vt, i, n * n);
    return g_calls.cusolverDnXgesvd(
        handle,
        params,
        'S',
        'S',
        m,
        n,
        type,
        matrix,
        m,
        type,
        values,
        type,
        left,
        m,
        type,
        right,
        n,
        type,
        work.device,
        work.device_bytes,
        work.host,
        work.host_bytes,
        info + i);
  });
}

void solver_syevd(const GpuStep& step, std::int64_t n, void* a, void* w, int* info) {
  const cudaDataType type = type_of(step);
  constexpr cusolverEigMode_t vectors = CUSOLVER_EIG_MODE_VECTOR;
  constexpr cublasFillMode_t upper = CUBLAS_FILL_MODE_UPPER;
  const auto ask = [&](auto handle, auto params, std::size_t* device, std::size_t* host) {
    return g_calls.cusolverDnXsyevd_bufferSize(
        handle, params, vectors, upper, n, type, a, n, type, w, type, device, host);
  };
  for_each_matrix(step, "cusolverDnXsyevd", ask, [&](auto handle, auto params, std::int64_t i, const Work& work) {
    void *const matrix = matrix_at(step, a, i, n * n), *const values = matrix_at(step, w, i, n);
    return g_calls.cusolverDnXsyevd(
        handle,
        params,
        vectors,
        upper,
        n,
        type,
        matrix,
        n,
        type,
        values,
        type,
        work.device,
        work.device_bytes,
        work.host,
        work.host_bytes,
        info + i);
  });
}

}  // namespace sluice::detail
