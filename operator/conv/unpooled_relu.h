#pragma once

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Of plans: the gradient of max pooling, let through where the result of relu in front of it, y (N, C, H, W), is not
/// 0, and its sums over all axes but the channels, the gradient of a convolution's bias. Takes the gradient of the
/// maxima, where in their planes these were (int32) and y; gives what has y's shape, and (C,). What a call of
/// max_pool2d_backward and one of convolution_relu_backward give, to the last bit.
extern const Operator max_pool2d_relu_backward_op;

/// By the kernels of both, of arrays that are contiguous in one order.
void unpooled_relu_in_two(const KernelCall& call);

// The kernels.
void unpooled_relu_gpu(const KernelCall& call);

}  // namespace sluice::detail
