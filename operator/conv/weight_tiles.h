#pragma once

// Gradients of the weights of small convolutions of floats in TF32: a library's kernels take several times what the
// multiprocessors need for so few products.
#include <cstdint>

#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// Output channels and input channels of a block, which must be whole; the most taps of a kernel.
inline constexpr std::int64_t k_weight_outputs = 64, k_weight_inputs = 32, k_weight_taps = 9;
/// Floats from pixel to pixel in shared memory: quads of pixels times eight channels meet 32 banks.
inline constexpr std::int64_t k_weight_head_pitch = k_weight_outputs + 8, k_weight_value_pitch = k_weight_inputs + 8;

/// Bytes of a strip of pixels at most: two of them, and what a block declares, in a multiprocessor.
inline constexpr std::int64_t k_weight_strip_bytes = 56 << 10;

/// Whether our kernel takes the gradient of the weight, on a GPU of capability 9.0: floats that TF32 may multiply,
/// channels last, one group, pieces of 16 bytes, no steps between pixels or taps, 2 to k_weight_taps taps, strips that
/// fit, and k_most_float_products.
bool is_weight_tiled(const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& data) noexcept;

/// The gradient of the weight from x and dy (`data.y`); is_weight_tiled(). The same bits every time. Workspace: partial
/// sums.
void weights_by_tiles_gpu(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data);

/// Rows of the result that a block has in shared memory at once, and bytes of these, with their pixels of x.
struct WeightStrip {
  std::int64_t rows = 0, bytes = 0;
};
WeightStrip weight_strip(const ConvolutionGeometry& g) noexcept;

}  // namespace sluice::detail
