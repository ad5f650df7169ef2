#pragma once

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// x, dy with an element a product -> dx: dy times the product of the other factors along `axes` (TermsAttributes).
/// What is recorded is made of other operators, which have gradients.
extern const Operator k_prod_backward;

void prod_backward_cpu(const KernelCall& call);
void prod_backward_gpu(const KernelCall& call);

}  // namespace sluice::detail
