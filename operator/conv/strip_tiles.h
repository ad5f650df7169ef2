#pragma once

// Small convolutions of floats in TF32, and the gradients of their inputs: a block keeps the weight and some rows of an
// image in shared memory, where all taps read them, in the place of a copy of each pixel for each tap.
#include <cstdint>

#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// The most products of a convolution of floats, and of its gradients, that kernels of ours take: larger ones fill a
/// library's tiles.
inline constexpr double k_most_float_products = 2e9;
/// Of blocks along an axis of a grid but the first.
inline constexpr std::int64_t k_most_of_grid = 65535;
/// Outputs of a warp, which must be whole.
inline constexpr std::int64_t k_strip_columns = 32;

/// Bytes of shared memory of a block at most, on the GPUs on which it was measured.
inline constexpr std::int64_t k_strip_room = 224 << 10;

/// Whether the kernel takes a forward pass or the gradient of x, on a GPU of capability 9.0: floats that TF32 may
/// multiply, channels last, one group, pieces of 16 bytes, no steps between pixels or taps, more taps than one, sums of
/// k_least_depth terms, k_most_float_products, and room in shared memory.
bool is_strip_tiled(
    ConvolutionPass pass, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& data) noexcept;

/// y from x, with what follows, or of `backward_data` x from y; is_strip_tiled(). A residual is in pieces of 16 bytes,
/// too. The same bits every time.
void convolution_by_strips(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    const ConvolutionData& data,
    const ChannelEpilogue& then = {});

/// The same where it is one of those and the GPU one on which they were measured; else false, and nothing done.
bool ran_by_strips(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const ChannelEpilogue& then);

/// How the pass is cut. Rows, channels and pads are those of the convolution that is computed: of `backward_data` one
/// of the heads, whose taps come from the last to the first.
struct StripPlan {
  ConvolutionGeometry as;
  std::int64_t rows = 0;     // of the result, of a block
  std::int64_t columns = 0;  // outputs of a block
  std::int64_t high = 0;     // of a warp, in 16 pixels
  std::int64_t bytes = 0;    // of shared memory
};
/// Floats from pixel to pixel, and from row to row of the weight: eight of these times quads meet 32 banks.
constexpr std::int64_t strip_pitch(std::int64_t channels) noexcept {
  return (channels + 31) / 32 * 32 + 4;
}
/// The same where quads of rows lie beside eight columns.
constexpr std::int64_t strip_turned_pitch(std::int64_t columns) noexcept {
  return (columns + 31) / 32 * 32 + 8;
}
/// Zero rows where there is no room.
StripPlan strip_plan(ConvolutionPass pass, const ConvolutionGeometry& g) noexcept;

}  // namespace sluice::detail
