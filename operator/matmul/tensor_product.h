#pragma once

#include <sluice/engine/queue.h>
#include <sluice/operator/matmul/gemm.h>

namespace sluice::detail {

/// Whether our kernel for products in TF32 takes the problem: float32 where the thread's precision is high, rows or
/// columns of aligned neighbours, so few tiles that the sums must be cut to fill a GPU, and a GPU with clusters.
bool takes_tensor_product(const Queue& queue, const GemmProblem& problem);

/// One kernel of ours for such a product, its sums cut among the blocks of a cluster, which join them in their order:
/// the same bits each time. Operands are rounded to TF32 (10 bits, to nearest), sums are float32; `row_sums` as in
/// product_gpu, in float32.
void tensor_product_gpu(const Queue& queue, const GemmProblem& problem, void* row_sums);

}  // namespace sluice::detail
