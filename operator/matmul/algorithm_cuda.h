#pragma once

#include <cstdint>
#include <string>

#include <sluice/operator/library/cublas_cuda.h>
#include <sluice/operator/matmul/gemm.h>

namespace sluice::detail {

/// The alignment of an address in bytes, at most 256: what algorithms ask for.
std::uint32_t alignment_of(const void* data) noexcept;

/// Chooses the algorithm of a described product, as autotune() says: the first of cuBLASLt's heuristics, or the
/// quickest in a trial of a few or of all, in which the host waits for the GPU. Sums over k are in the compute type and
/// in a fixed order. `key` says which problem it is. False if there is none for the product with its epilogue.
bool choose_algorithm(cublasLtHandle_t handle, const GemmProblem& problem, CublasPlan& plan, const std::string& key);

}  // namespace sluice::detail
