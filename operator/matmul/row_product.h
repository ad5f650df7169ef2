#pragma once

#include <sluice/engine/queue.h>
#include <sluice/operator/matmul/gemm.h>

namespace sluice::detail {

/// Whether a product is one of some few rows with columns whose terms are neighbours, in whole vectors of 16 bytes, so
/// many that they are work for a warp and so few that one is enough: what a layer does with one sample. Its time is
/// that of reading b once.
bool is_row_product(const GemmProblem& problem) noexcept;

/// That product on a GPU by one kernel of ours, with what follows it; half types add up in float32. No extent is 0.
void row_product_gpu(const Queue& queue, const GemmProblem& problem);

}  // namespace sluice::detail
