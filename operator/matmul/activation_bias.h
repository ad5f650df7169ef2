#pragma once

#include <sluice/operator/elementwise/rows.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Of plans: the gradient of an activation, dx, and the gradient of the bias that was added in front of it, the sum of
/// dx over all axes but the last. Takes dy and x (..., units), of one floating type; gives dx and (units,). What a call
/// of the activation's gradient and one of dense_backward_bias give, to the last bit.
extern const Operator gelu_backward_bias_op, gelu_tanh_backward_bias_op, silu_backward_bias_op;

/// The one of these that does what `activation_backward`, an operator of dy, x and y, does too; null if none does.
const Operator* with_bias_sum(const Operator* activation_backward) noexcept;
/// Whether an operator is one of these.
bool gives_bias_sum(const Operator* op) noexcept;

/// Such a call by the kernels of both; `row`: the activation.
void activation_bias_in_two(Unary row, const KernelCall& call);

/// The kernels; the latter in builds with CUDA.
template <Unary row>
void activation_bias_cpu(const KernelCall& call) {
  activation_bias_in_two(row, call);
}
template <Unary row>
void activation_bias_gpu(const KernelCall& call);

}  // namespace sluice::detail
