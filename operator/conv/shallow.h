#pragma once

// Convolutions whose outputs are sums of few terms, first layers: tensor cores stay empty there, and what a library
// takes is its kernels' launches and the passes for bias, relu and mask around them. Kernels of ours do all in one.
#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// The most terms of an output: kernel height x kernel width x input channels.
inline constexpr int k_shallow_depth = 36;

/// Whether our kernels take a forward pass or a weight's gradient on a GPU; a library has the others. By shape and type
/// alone.
bool is_shallow(const ConvolutionGeometry& g, ConvolutionPass pass) noexcept;

/// y, with the bias (may be null) and relu. All lie in `order`, without gaps; is_shallow().
void shallow_forward_gpu(
    const Queue& queue, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& data, bool relu);

/// The gradients of the weight and, unless `data.bias_grad` is null, of the bias from x and dy (`data.y`). `result`: of
/// the relu behind, only heads where it is not 0 count; may be null. All lie in `order`, without gaps; is_shallow().
void shallow_weights_gpu(
    const Queue& queue,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const void* result);

}  // namespace sluice::detail
