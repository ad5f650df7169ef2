#pragma once

// Convolutions of two-byte types by boxes of terms that a GPU of capability 9.0 copies by itself.
#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// All of it, rounded once, if the kernel takes it and there are tiles for all multiprocessors: what is_tiled(), and of
/// channels in whole pieces of 16 bytes. False, and nothing done, otherwise. The same bits every time.
bool convolution_by_boxes(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then);

}  // namespace sluice::detail
