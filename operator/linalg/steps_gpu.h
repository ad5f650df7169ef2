#pragma once

#include <sluice/engine/queue.h>
#include <sluice/operator/linalg/steps.h>

// The steps on a GPU: kernels of ours, and the calls of cuSOLVER and cuBLAS for which simulated GPUs have LAPACK.
namespace sluice::detail {

/// Where, of which type, and for how many matrices.
struct GpuStep {
  const Queue& queue;
  DType dtype;
  std::int64_t count;
};

void place_gpu(const GpuStep& step, const Placement& placement);
void find_bad_gpu(const GpuStep& step, const void* matrices, std::int64_t each, int* bad);
void find_zero_gpu(const GpuStep& step, const void* matrices, std::int64_t n, int* found);
void determinants_gpu(const GpuStep& step, const Determinants& wanted);
/// Reports the first matrix whose int is not 0.
void refuse_gpu(const GpuStep& step, const int* info, FaultCode code);

// Steps as in lapack.h, for each matrix, with an int each where LAPACK gives info.
using Potrf = void(const GpuStep& step, std::int64_t n, void* a, int* info);
using Trsm = void(
    const GpuStep& step,
    bool upper,
    bool transposed,
    bool unit_diagonal,
    std::int64_t m,
    std::int64_t n,
    const void* a,
    void* b);
using Getrf = void(const GpuStep& step, std::int64_t n, void* a, std::int64_t* pivots, int* info);
using Getrs = void(
    const GpuStep& step,
    bool transposed,
    std::int64_t n,
    std::int64_t columns,
    const void* a,
    const std::int64_t* pivots,
    void* b);

/// Rows of matrices that one block keeps: for these some steps are kernels of ours too.
inline constexpr std::int64_t k_small_matrix = 64;
Potrf small_potrf_gpu;
Trsm small_trsm_gpu;
Getrf small_getrf_gpu;
Getrs small_getrs_gpu;

/// Throws LibraryError naming `op` where cuSOLVER or cuBLAS is missing.
void require_solver(const char* op);
Potrf solver_potrf;
Trsm solver_trsm;
Getrf solver_getrf;
Getrs solver_getrs;
void solver_geqrf(const GpuStep& step, std::int64_t m, std::int64_t n, void* a, void* tau);
void solver_orgqr(const GpuStep& step, std::int64_t m, std::int64_t n, std::int64_t k, void* a, const void* tau);
void solver_gesvd(const GpuStep& step, std::int64_t m, std::int64_t n, void* a, void* s, void* u, void* vt, int* info);
void solver_syevd(const GpuStep& step, std::int64_t n, void* a, void* w, int* info);

}  // namespace sluice::detail
