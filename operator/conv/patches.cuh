#pragma once

// The inputs that outputs of a shallow convolution are sums of, unfolded into memory that a block shares.
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/conv/shallow.h>

namespace sluice::detail {

inline constexpr int k_shallow_block = 256;
/// Outputs of a block, pixels and channels; a thread has `k_shallow_own` neighbouring channels.
template <class Acc>
inline constexpr int k_shallow_pixels = sizeof(Acc) > 4 ? 64 : 128;
inline constexpr int k_shallow_channels = 32, k_shallow_own = 4;

/// Where the outputs' terms are in x. Terms are numbered as the weights of one output lie in memory.
struct Patches {
  Divider<std::int32_t> plane, width;  // of outputs
  std::int32_t pixels, depth;          // of all images; terms
  std::int32_t stride[2], pad[2], in[2];
  std::uint32_t image_step, row_step, column_step;
  std::int32_t down[k_shallow_depth], along[k_shallow_depth];
  std::uint32_t offset[k_shallow_depth];

  Patches(const ConvolutionGeometry& g, MemoryOrder order)
      : plane(g.out_plane()),
        width(g.out[1]),
        pixels(static_cast<std::int32_t>(g.images * g.out_plane())),
        depth(static_cast<std::int32_t>(g.depth())) {
    const bool last = order == MemoryOrder::channels_last;
    const auto number = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const auto step = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
    image_step = step(g.inputs * g.in_plane());
    column_step = last ? step(g.inputs) : 1;
    row_step = column_step * step(g.in[1]);
    const std::uint32_t channel_step = last ? 1 : step(g.in_plane());
    for (int axis = 0; axis < 2; ++axis) {
      stride[axis] = number(g.stride[axis]);
      pad[axis] = number(g.pad[axis]);
      in[axis] = number(g.in[axis]);
    }
    for (int k = 0; k < k_shallow_depth; ++k) {
      const bool real = k < depth;
      const std::int64_t taps = g.kernel[0] * g.kernel[1];
      const std::int64_t tap = last ? k / g.inputs : k % taps, channel = last ? k % g.inputs : k / taps;
      down[k] = real ? number(tap / g.kernel[1] * g.dilation[0]) : 0;
      along[k] = real ? number(tap % g.kernel[1] * g.dilation[1]) : 0;
      offset[k] = real ? step(down[k]) * row_step + step(along[k]) * column_step + step(channel) * channel_step : 0;
    }
  }
};

/// tile[k][pixel] for `rows` terms and as many pixels as a block has, from pixel `first` on: what lies outside is 0.
template <class Acc, class T>
__device__ void unfold_patches(const Patches& patches, const T* x, std::int32_t first, int rows, Acc* tile) {
  constexpr int pixels = k_shallow_pixels<Acc>;
  const int mine = static_cast<int>(threadIdx.x) % pixels;
  const std::int32_t pixel = first + mine;
  const std::int32_t image = patches.plane.divide(pixel), place = pixel - image * patches.plane.value();
  const std::int32_t row = patches.width.divide(place), column = place - row * patches.width.value();
  const std::int32_t y = row * patches.stride[0] - patches.pad[0], from = column * patches.stride[1] - patches.pad[1];
  // Before the first row or behind the last image it wraps around, and is not used.
  const std::uint32_t base = static_cast<std::uint32_t>(image) * patches.image_step +
                             static_cast<std::uint32_t>(y) * patches.row_step +
                             static_cast<std::uint32_t>(from) * patches.column_step;
  // Of a thread's terms some are loaded at once: a loop that is unrolled in part would wait for each of the rest.
  constexpr int step = k_shallow_block / pixels, at_once = 5;
  for (int begin = static_cast<int>(threadIdx.x) / pixels; begin < rows; begin += at_once * step) {
    Acc values[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int k = begin + i * step < k_shallow_depth ? begin + i * step : 0;
      const auto in_y = static_cast<std::uint32_t>(y + patches.down[k]);
      const auto in_x = static_cast<std::uint32_t>(from + patches.along[k]);
      const bool inside = pixel < patches.pixels && begin + i * step < patches.depth &&
                          in_y < static_cast<std::uint32_t>(patches.in[0]) &&
                          in_x < static_cast<std::uint32_t>(patches.in[1]);
      const T value = x[inside ? base + patches.offset[k] : 0];
      values[i] = inside ? static_cast<Acc>(value) : Acc(0);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      if (begin + i * step < rows)
        tile[(begin + i * step) * pixels + mine] = values[i];
    }
  }
}

}  // namespace sluice::detail
