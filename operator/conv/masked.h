#pragma once

#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// The geometry of a call of convolution_relu_backward_weights: x, dy, y, weight (shape alone).
ConvolutionGeometry relu_backward_weights_geometry(const KernelCall& call);

/// Such a call in two steps, by the kernels of convolution_relu_backward, of the bias too, and of
/// convolution_backward_weights.
void mask_then_weights(const KernelCall& call, Kernel mask, Kernel weights);

}  // namespace sluice::detail
