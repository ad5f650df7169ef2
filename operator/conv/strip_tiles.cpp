#include <algorithm>
#include <utility>

#include <sluice/operator/conv/strip_tiles.h>
#include <sluice/operator/conv/tensor_tiles.h>

namespace sluice::detail {
namespace {

ConvolutionGeometry computed(ConvolutionPass pass, const ConvolutionGeometry& g) noexcept {
  ConvolutionGeometry t = g;
  if (pass == ConvolutionPass::forward)
    return t;
  std::swap(t.inputs, t.outputs);
  for (int axis = 0; axis < 2; ++axis) {
    std::swap(t.in[axis], t.out[axis]);
    t.pad[axis] = g.kernel[axis] - 1 - g.pad[axis];
    t.pad_end[axis] = g.kernel[axis] - 1 - g.pad_end[axis];
  }
  return t;
}

std::int64_t bytes_of(ConvolutionPass pass, const StripPlan& plan, std::int64_t rows) noexcept {
  const ConvolutionGeometry& g = plan.as;
  const std::int64_t taps = g.kernel[0] * g.kernel[1];
  const std::int64_t pixels = (rows - 1 + g.kernel[0]) * (g.out[1] - 1 + g.kernel[1]);
  const std::int64_t weight = pass == ConvolutionPass::forward ? plan.columns * strip_pitch(g.inputs)
                                                               : g.inputs * strip_turned_pitch(plan.columns);
  return (taps * weight + pixels * strip_pitch(g.inputs)) * static_cast<std::int64_t>(sizeof(float));
}

// A tile of three reads less for what it multiplies; the last ones of a multiprocessor's four parts may be few.
std::int64_t high_of(const StripPlan& plan) noexcept {
  constexpr std::int64_t k_parts = 4;
  const auto time = [&](std::int64_t high) {
    const std::int64_t tiles = parts_of(plan.rows * plan.as.out[1], 16 * high) * (plan.columns / k_strip_columns);
    return parts_of(tiles, k_parts) * high;
  };
  return time(2) < time(3) ? 2 : 3;
}

}  // namespace

StripPlan strip_plan(ConvolutionPass pass, const ConvolutionGeometry& g) noexcept {
  StripPlan plan{.as = computed(pass, g)};
  plan.columns = plan.as.outputs % (2 * k_strip_columns) == 0 ? 2 * k_strip_columns : k_strip_columns;
  const std::int64_t images = plan.as.images * (plan.as.outputs / plan.columns), height = plan.as.out[0];
  const std::int64_t least = bytes_of(pass, plan, 1), each = bytes_of(pass, plan, 2) - least;
  if (least > k_strip_room)
    return plan;
  // Long strips read little twice; there should be one for each multiprocessor.
  const std::int64_t wanted = std::clamp<std::int64_t>(k_multiprocessors / images, 1, height);
  const std::int64_t strips = std::max(wanted, parts_of(height, 1 + (k_strip_room - least) / each));
  plan.rows = parts_of(height, strips);
  plan.bytes = bytes_of(pass, plan, plan.rows);
  plan.high = high_of(plan);
  return plan;
}

bool is_strip_tiled(
    ConvolutionPass pass, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& data) noexcept {
  constexpr std::int64_t k_step = 8;  // channels that are multiplied at once
  if (pass == ConvolutionPass::backward_weights || !is_tf32(g.dtype) || order != MemoryOrder::channels_last ||
      g.groups != 1 || g.is_pointwise())
    return false;
  if (g.x_shape().size() == 0 || g.weight_shape().size() == 0 || g.y_shape().size() == 0)
    return false;
  const ConvolutionGeometry t = computed(pass, g);
  for (int axis = 0; axis < 2; ++axis) {
    if (g.stride[axis] != 1 || g.dilation[axis] != 1 || t.pad[axis] < 0 || t.pad_end[axis] < 0)
      return false;
  }
  if (t.depth() < k_least_depth || t.inputs % k_step != 0 || t.outputs % k_strip_columns != 0 ||
      t.outputs / k_strip_columns > k_most_of_grid)
    return false;
  if (!is_aligned(data.x) || !is_aligned(data.y) || !is_aligned(data.weight))
    return false;
  return static_cast<double>(g.y_shape().size()) * static_cast<double>(g.depth()) <= k_most_float_products &&
         strip_plan(pass, g).rows > 0;
}

}  // namespace sluice::detail
