#include <algorithm>
#include <cstdint>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/conv/box_tiles.cuh>
#include <sluice/operator/conv/box_tiles.h>
#include <sluice/operator/conv/tensor_tiles.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/nvrtc.h>

namespace sluice::detail {
namespace {

std::int64_t tiles_of(const ConvolutionGeometry& g, std::int64_t columns) {
  return parts_of(g.images * g.out_plane(), k_box_rows) * parts_of(g.outputs, columns);
}

// The host's simulation of a GPU has no such copies.
#ifdef __CUDACC__
constexpr bool k_copies_boxes = true;
#else
constexpr bool k_copies_boxes = false;
#endif

constexpr std::int64_t k_of_line = k_box_line / 2;  // numbers

/// What boxes can be told: corners in a byte, steps of at most eight.
bool fits_boxes(const ConvolutionGeometry& g) {
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t reach = (g.kernel[axis] - 1) * g.dilation[axis], beyond = g.pad_end[axis] - reach;
    if (g.stride[axis] > 8 || g.pad[axis] > 128 || beyond < -128 || beyond > 127 || reach > 255)
      return false;
  }
  return true;
}

bool describe_terms(
    CUtensorMap& x, CUtensorMap& weight, const ConvolutionGeometry& g, const ConvolutionData& data, int columns) {
  const std::int64_t taps = g.kernel[0] * g.kernel[1];
  const LineMap of_weight{
      .dtype = g.dtype, .data = data.weight, .outer = g.outputs, .inner = taps, .channels = g.inputs};
  if (!describe_lines(weight, of_weight, columns))
    return false;
  if (g.is_pointwise())
    return describe_lines(
        x,
        {.dtype = g.dtype, .data = data.x, .outer = g.images * g.out_plane(), .inner = 1, .channels = g.inputs},
        k_box_rows);
  ImageMap of_x{
      .dtype = g.dtype,
      .data = data.x,
      .images = g.images,
      .height = g.in[0],
      .width = g.in[1],
      .channels = g.inputs,
      .stride = {},
      .pad = {},
      .beyond = {}};
  for (int axis = 0; axis < 2; ++axis) {
    of_x.stride[axis] = g.stride[axis];
    of_x.pad[axis] = g.pad[axis];
    of_x.beyond[axis] = g.pad_end[axis] - (g.kernel[axis] - 1) * g.dilation[axis];
  }
  return describe_images(x, of_x, k_box_rows);
}

template <class T>
BoxConvolution<T> boxed(
    const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then, std::int64_t columns) {
  BoxConvolution<T> p{
      .weight = static_cast<const T*>(data.weight),
      .residual = static_cast<const T*>(then.residual),
      .bias = static_cast<const T*>(then.bias),
      .y = static_cast<T*>(data.y),
      .scale = static_cast<const float*>(then.scale),
      .shift = static_cast<const float*>(then.shift),
      .relu = then.relu,
      .pixels = static_cast<std::int32_t>(g.images * g.out_plane()),
      .outputs = static_cast<std::int32_t>(g.outputs),
      .tiles = static_cast<std::int32_t>(tiles_of(g, columns)),
      .kernel = {},
      .stride = {},
      .dilation = {},
      .pad = {},
      .inputs = static_cast<std::int32_t>(g.inputs),
      .lines = static_cast<std::int32_t>(parts_of(g.inputs, k_of_line)),
      .out_plane = Divider<std::int32_t>(g.out_plane()),
      .out_width = Divider<std::int32_t>(g.out[1]),
      .tiles_across = Divider<std::int32_t>(parts_of(g.outputs, columns))};
  for (int axis = 0; axis < 2; ++axis) {
    p.kernel[axis] = static_cast<std::int32_t>(g.kernel[axis]);
    p.stride[axis] = static_cast<std::int32_t>(g.stride[axis]);
    p.dilation[axis] = static_cast<std::int32_t>(g.dilation[axis]);
    p.pad[axis] = static_cast<std::int32_t>(g.pad[axis]);
  }
  return p;
}

template <class T, int Columns, bool Pointwise>
void launch(const Queue& queue, const CUtensorMap& x, const CUtensorMap& weight, const BoxConvolution<T>& p) {
  using Stages = BoxStages<Columns>;
  constexpr auto kernel = convolve_boxes_kernel<T, Columns, Pointwise>;
  allow_shared<kernel, Stages::k_room>(queue.device().index);
  const cudaStream_t stream = stream_of(queue);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(p.tiles, Stages::k_blocks * k_multiprocessors));
  kernel<<<blocks, k_box_threads, Stages::k_room, stream>>>(x, weight, p);
  check_early_launch("convolution_fused", stream);
}

template <class T, int Columns>
bool by_columns(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then) {
  CUtensorMap x, weight;
  if (!describe_terms(x, weight, g, data, Columns))
    return false;
  const BoxConvolution<T> p = boxed<T>(g, data, then, Columns);
  g.is_pointwise() ? launch<T, Columns, true>(queue, x, weight, p) : launch<T, Columns, false>(queue, x, weight, p);
  return true;
}

constexpr int k_narrow = 64, k_wide = 128;  // columns of a tile

/// Bytes that come to the multiprocessor with most tiles take the time: less of them with wide tiles, if there are
/// enough. Where a tile has few terms, two blocks that take turns are worth more, which narrow ones find room for.
bool is_wide(const ConvolutionGeometry& g) {
  constexpr std::int64_t k_few_steps = 9, k_many_steps = 100;
  const std::int64_t steps = g.kernel[0] * g.kernel[1] * parts_of(g.inputs, k_of_line);
  const auto bytes = [&](int columns) {
    return parts_of(tiles_of(g, columns), k_multiprocessors) * (k_box_rows + columns);
  };
  if (steps < k_few_steps || g.outputs <= k_narrow)
    return false;
  // Measured: many taps far out of an image cost two blocks more than one.
  return steps >= k_many_steps ? bytes(k_wide) <= 2 * bytes(k_narrow) : bytes(k_wide) < bytes(k_narrow);
}

template <class T>
bool by_type(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then) {
  return is_wide(g) ? by_columns<T, k_wide>(queue, g, data, then) : by_columns<T, k_narrow>(queue, g, data, then);
}

}  // namespace

bool convolution_by_boxes(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then) {
  constexpr int k_capability = 90;            // what the kernel is written in no other has
  constexpr std::int64_t k_least_tiles = 60;  // fewer are better shared among blocks
  if (!k_copies_boxes || !kernels_wait_themselves() || gpu_capability(queue.device().index) != k_capability)
    return false;
  if (tiles_of(g, k_narrow) < k_least_tiles || g.inputs < k_of_line / 2 || !fits_boxes(g))
    return false;
  if (!is_aligned(then.scale) || !is_aligned(then.shift) || !is_aligned(then.bias))
    return false;
  return g.dtype == DType::float16 ? by_type<Half>(queue, g, data, then) : by_type<BFloat16>(queue, g, data, then);
}

}  // namespace sluice::detail
