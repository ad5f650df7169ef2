#pragma once

// First layers of half types on a GPU of capability 9.0: at most four channels, kernels that go two pixels on. There
// neighbouring pixels are brought together as pieces of four channels each, once a row, and tensor cores read every
// place of the kernel out of the same rows.
#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// Whether these kernels take the pass. Arrays have channels last; no extent is 0. By shape, type, device and
/// whether `y` begins at 16 bytes.
bool is_first_layer(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, MemoryOrder order, const void* y);

/// y with what follows, rounded once; is_first_layer().
void first_layer_forward_gpu(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then);

/// The weight's gradient from x and dy (`data.y`); is_first_layer(). The same bits every time.
void first_layer_weights_gpu(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data);

}  // namespace sluice::detail
