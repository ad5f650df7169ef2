#pragma once

// Convolutions of two-byte types by boxes of terms that a GPU of capability 9.0 copies by itself.
#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// All of what is_tiled() in whole pieces of 16 bytes of channels, rounded once, where the GPU has the kernel, boxes
/// can be told of it and there are tiles enough. False, and nothing done, otherwise. The same bits every time.
bool convolution_by_boxes(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then);

}  // namespace sluice::detail
