#pragma once

#include <sluice/engine/queue.h>
#include <sluice/operator/matmul/gemm.h>

namespace sluice::detail {

/// Whether a product is so small that a library's call takes longer on the host than its kernels on a GPU.
bool is_small_product(const GemmProblem& problem) noexcept;

/// One kernel of ours for products of any strides and floating types, biases of columns, relu, accumulation into c (of
/// the problem's own type) and `row_sums` as in product_gpu; half types add up in float32, in an order that depends on
/// the extents alone. No extent is 0; the product is_small_product().
void small_product_gpu(const Queue& queue, const GemmProblem& problem, void* row_sums);

/// The product of integers, which wrap: of any strides and extents above 0, without bias and what follows it.
void integer_product_gpu(const Queue& queue, const GemmProblem& problem);

}  // namespace sluice::detail
