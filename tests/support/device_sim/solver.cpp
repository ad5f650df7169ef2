// What cuSOLVER and cuBLAS do for decompositions, on the simulated GPU: LAPACK, run as kernels are.
#include <algorithm>

#include <cuda_runtime_api.h>

#include <sluice/operator/linalg/lapack.h>
#include <sluice/operator/linalg/steps_gpu.h>

#include "tests/support/cuda_sim/sim.h"

namespace sluice::detail {
namespace {

// `run` for each matrix; at(data, i, each) is where matrix i begins.
template <class Run>
void for_each_matrix(const GpuStep& step, Run run) {
  const std::int64_t bytes = static_cast<std::int64_t>(size_of(step.dtype));
  const auto at = [bytes](const void* data, std::int64_t i, std::int64_t each) {
    return static_cast<void*>(static_cast<char*>(const_cast<void*>(data)) + i * each * bytes);
  };
  test::sim::launch(static_cast<cudaStream_t>(step.queue.stream()), [=, count = step.count] {
    for (std::int64_t i = 0; i < count; ++i)
      run(i, at);
  });
}

}  // namespace

void require_solver(const char* op) {
  lapack_library().require(op);
}

void solver_potrf(const GpuStep& step, std::int64_t n, void* a, int* info) {
  for_each_matrix(
      step, [=, type = step.dtype](std::int64_t i, auto at) { info[i] = lapack_potrf(type, n, at(a, i, n * n)); });
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
  for_each_matrix(step, [=, type = step.dtype](std::int64_t i, auto at) {
    lapack_trsm(type, upper, transposed, unit_diagonal, m, n, at(a, i, n * n), at(b, i, m * n));
  });
}

void solver_getrf(const GpuStep& step, std::int64_t n, void* a, std::int64_t* pivots, int* info) {
  for_each_matrix(step, [=, type = step.dtype](std::int64_t i, auto at) {
    info[i] = lapack_getrf(type, n, at(a, i, n * n), pivots + i * n);
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
  for_each_matrix(step, [=, type = step.dtype](std::int64_t i, auto at) {
    lapack_getrs(type, transposed, n, columns, at(a, i, n * n), pivots + i * n, at(b, i, n * columns));
  });
}

void solver_geqrf(const GpuStep& step, std::int64_t m, std::int64_t n, void* a, void* tau) {
  for_each_matrix(step, [=, type = step.dtype](std::int64_t i, auto at) {
    lapack_geqrf(type, m, n, at(a, i, m * n), at(tau, i, std::min(m, n)));
  });
}

void solver_orgqr(const GpuStep& step, std::int64_t m, std::int64_t n, std::int64_t k, void* a, const void* tau) {
  for_each_matrix(step, [=, type = step.dtype](std::int64_t i, auto at) {
    lapack_orgqr(type, m, k, at(a, i, m * n), at(tau, i, k));
  });
}

void solver_gesvd(const GpuStep& step, std::int64_t m, std::int64_t n, void* a, void* s, void* u, void* vt, int* info) {
  for_each_matrix(step, [=, type = step.dtype](std::int64_t i, auto at) {
    info[i] = lapack_gesvd(type, m, n, at(a, i, m * n), at(s, i, n), at(u, i, m * n), at(vt, i, n * n));
  });
}

void solver_syevd(const GpuStep& step, std::int64_t n, void* a, void* w, int* info) {
  for_each_matrix(step, [=, type = step.dtype](std::int64_t i, auto at) {
    info[i] = lapack_syevd(type, n, at(a, i, n * n), at(w, i, n));
  });
}

}  // namespace sluice::detail
