#pragma once

#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// Passes of a convolution of half types as products with its unfolded images, all beside each other, by oneDNN: where
/// there are few pixels and many weights, that is quicker than bringing those in the order of its convolutions. False
/// where it is not, and where oneDNN has no such product. No extent is 0.
bool convolution_of_few_pixels(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data);

}  // namespace sluice::detail
