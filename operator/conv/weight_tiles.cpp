#include <algorithm>

#include <sluice/operator/conv/strip_tiles.h>
#include <sluice/operator/conv/tensor_tiles.h>
#include <sluice/operator/conv/weight_tiles.h>

namespace sluice::detail {
namespace {

std::int64_t strip_bytes(const ConvolutionGeometry& g, std::int64_t rows) noexcept {
  constexpr std::int64_t k_step = 8;  // pixels that are multiplied at once
  const std::int64_t heads = parts_of(rows * g.out[1], k_step) * k_step * k_weight_head_pitch;
  const std::int64_t pixels = (rows - 1 + g.kernel[0]) * (g.out[1] - 1 + g.kernel[1]) + 1;  // the last: zeros
  return (heads + pixels * k_weight_value_pitch) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

WeightStrip weight_strip(const ConvolutionGeometry& g) noexcept {
  constexpr std::int64_t k_pixels = 96;  // enough to wait for the next ones
  std::int64_t rows = std::clamp<std::int64_t>(k_pixels / g.out[1], 1, g.out[0]);
  while (rows > 1 && strip_bytes(g, rows) > k_weight_strip_bytes)
    --rows;
  return {rows, strip_bytes(g, rows)};
}

bool is_weight_tiled(const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& data) noexcept {
  if (!is_tf32(g.dtype) || order != MemoryOrder::channels_last || g.groups != 1)
    return false;
  if (g.x_shape().size() == 0 || g.weight_shape().size() == 0 || g.y_shape().size() == 0)
    return false;
  for (int axis = 0; axis < 2; ++axis) {
    if (g.stride[axis] != 1 || g.dilation[axis] != 1)
      return false;
  }
  const std::int64_t taps = g.kernel[0] * g.kernel[1];
  if (taps == 1 || taps > k_weight_taps || g.outputs % k_weight_outputs != 0 || g.inputs % k_weight_inputs != 0)
    return false;
  if (g.outputs / k_weight_outputs > k_most_of_grid || g.inputs / k_weight_inputs > k_most_of_grid)
    return false;
  if (!is_aligned(data.x) || !is_aligned(data.y) || !is_aligned(data.weight))
    return false;
  return static_cast<double>(g.y_shape().size()) * static_cast<double>(g.depth()) <= k_most_float_products &&
         weight_strip(g).bytes <= k_weight_strip_bytes;
}

}  // namespace sluice::detail
