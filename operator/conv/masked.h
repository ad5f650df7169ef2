#pragma once

#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// The geometry of a call of convolution_relu_backward_weights: x, dy, y, weight (shape alone).
ConvolutionGeometry relu_backward_weights_geometry(const KernelCall& call);

/// Such a call of float32 by oneDNN, a piece of the images after the other, which stays in the caches from the mask to
/// the gradients; `result` is that of relu. False, and nothing done, where it does not take it so.
bool masked_weights_onednn(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const void* result);

/// Such a call in two steps, by the kernels of convolution_relu_backward, of the bias too, and of
/// convolution_backward_weights.
void mask_then_weights(const KernelCall& call, Kernel mask, Kernel weights);

}  // namespace sluice::detail
