#include <cstdint>
#include <limits>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/conv/box_tiles.h>
#include <sluice/operator/conv/tensor_tiles.cuh>
#include <sluice/operator/conv/tensor_tiles.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/nvrtc.h>
#include <sluice/operator/matmul/precision.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_most = std::numeric_limits<std::int32_t>::max() / 2;

constexpr std::int64_t k_of_piece = 8;  // numbers of two bytes

/// Pieces that a pixel's channels fill.
std::int64_t pieces_of(const ConvolutionGeometry& g) {
  return parts_of(g.inputs, k_piece_bytes / static_cast<std::int64_t>(size_of(g.dtype)));
}

/// Rows of pixels whose channels are no whole pieces, as pieces: of `of_piece` neighbouring pixels if there are
/// several, else some of one pixel. Zeros stand where there are no channels or pixels.
struct PieceRows {
  std::int32_t total;                               // pieces
  std::int32_t rows, width, channels;               // images (output channels of a weight), rows and columns of each
  std::int32_t made_rows, above, before, of_piece;  // rows made of each, and how many rows and pixels come before them
  Divider<std::int32_t> row_pieces, all_rows, pieces;  // pieces: of a row, and made_rows, and those of a pixel
};

/// Piece `at` of those.
template <class T>
__device__ void make_piece(const T* x, T* made, const PieceRows& p, std::int32_t at) {
  constexpr int V = k_piece_bytes / static_cast<int>(sizeof(T));
  const std::int32_t line = p.row_pieces.divide(at), in_line = at - line * p.row_pieces.value();
  const std::int32_t image = p.all_rows.divide(line), row = line - image * p.all_rows.value() - p.above;
  const std::int32_t place = p.pieces.divide(in_line), piece = in_line - place * p.pieces.value();
  const std::int32_t each = V / p.of_piece;  // numbers of a piece that are one pixel's
  Neighbours<T, V> whole;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const std::int32_t column = place * p.of_piece + j / each - p.before, channel = piece * V + j % each;
    const bool there = row >= 0 && row < p.rows && column >= 0 && column < p.width && channel < p.channels;
    const std::int64_t pixel = static_cast<std::int64_t>(image * p.rows + row) * p.width + column;
    whole.at[j] = there ? x[pixel * p.channels + channel] : T(0.0F);
  }
  reinterpret_cast<Neighbours<T, V>*>(made)[at] = whole;
}

/// Those of x and of the weight, one a thread.
template <class T>
__global__ void make_pieces_kernel(ConvolutionData from, T* x, T* weight, PieceRows of_x, PieceRows of_weight) {
  start_early();
  const auto at = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < of_x.total)
    make_piece(static_cast<const T*>(from.x), x, of_x, at);
  else if (at - of_x.total < of_weight.total)
    make_piece(static_cast<const T*>(from.weight), weight, of_weight, at - of_x.total);
}

std::int32_t narrow(std::int64_t number) {
  return static_cast<std::int32_t>(number);
}

/// The same convolution of arrays in whole pieces.
struct Refilled {
  ConvolutionGeometry as;
  PieceRows x, weight;
  std::int32_t row_end = k_piece_bytes;  // of the last piece of a kernel's row, whose second pixel may be none of it

  explicit Refilled(const ConvolutionGeometry& g) : as(g) {
    constexpr std::int64_t k_pair = 2;  // pixels that are a piece: for kernels that go two pixels on
    const bool pairs =
        g.inputs * k_pair <= k_of_piece && g.stride[1] == k_pair && g.dilation[1] == 1 && g.kernel[1] > 1;
    const std::int64_t of_piece = pairs ? k_pair : 1, pieces = pairs ? 1 : pieces_of(g);
    as.inputs = pieces * k_of_piece;
    std::int64_t above = 0, before = 0;
    if (pairs) {
      above = g.pad[0];
      before = g.pad[1];
      as.kernel[1] = (g.kernel[1] + 1) / k_pair;
      as.stride[1] = 1;
      row_end = g.kernel[1] % k_pair == 0 ? k_piece_bytes : k_piece_bytes / 2;
      as.in[0] = g.in[0] + g.pad[0] + g.pad_end[0];
      as.in[1] = g.out[1] - 1 + as.kernel[1];
      for (int axis = 0; axis < 2; ++axis)
        as.pad[axis] = as.pad_end[axis] = 0;
    }
    x = rows(g.images, g.in, as.in, g.inputs, of_piece, pieces, above, before);
    weight = rows(g.outputs, g.kernel, as.kernel, g.inputs, of_piece, pieces, 0, 0);
  }

 private:
  static PieceRows rows(
      std::int64_t count,
      const std::int64_t (&from)[2],
      const std::int64_t (&to)[2],
      std::int64_t channels,
      std::int64_t of_piece,
      std::int64_t pieces,
      std::int64_t above,
      std::int64_t before) {
    return {
        .total = narrow(count * to[0] * to[1] * pieces),
        .rows = narrow(from[0]),
        .width = narrow(from[1]),
        .channels = narrow(channels),
        .made_rows = narrow(to[0]),
        .above = narrow(above),
        .before = narrow(before),
        .of_piece = narrow(of_piece),
        .row_pieces = Divider<std::int32_t>(to[1] * pieces),
        .all_rows = Divider<std::int32_t>(to[0]),
        .pieces = Divider<std::int32_t>(pieces)};
  }
};

template <class T>
void make_pieces(const Queue& queue, const ConvolutionData& from, T* x, T* weight, const Refilled& filled) {
  constexpr int k_threads = 256;
  const int total = filled.x.total + filled.weight.total;
  const cudaStream_t stream = stream_of(queue);
  make_pieces_kernel<<<static_cast<unsigned>((total + k_threads - 1) / k_threads), k_threads, 0, stream>>>(
      from, x, weight, filled.x, filled.weight);
  check_early_launch("convolution_fused", stream);
}

template <class T>
TiledConvolution<T> tiled(
    const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then, std::int32_t row_end) {
  const std::int64_t pieces = pieces_of(g);
  TiledConvolution<T> p{
      .x = static_cast<const T*>(data.x),
      .weight = static_cast<const T*>(data.weight),
      .residual = static_cast<const T*>(then.residual),
      .bias = static_cast<const T*>(then.bias),
      .y = static_cast<T*>(data.y),
      .scale = static_cast<const float*>(then.scale),
      .shift = static_cast<const float*>(then.shift),
      .relu = then.relu,
      .pixels = narrow(g.images * g.out_plane()),
      .outputs = narrow(g.outputs),
      .depth = narrow(g.kernel[0] * g.kernel[1] * pieces),
      .height = narrow(g.in[0]),
      .width = narrow(g.in[1]),
      .stride = {},
      .dilation = {},
      .pad = {},
      .row_end = row_end,
      .out_plane = Divider<std::int32_t>(g.out_plane()),
      .out_width = Divider<std::int32_t>(g.out[1]),
      .pieces = Divider<std::int32_t>(pieces),
      .kernel_width = Divider<std::int32_t>(g.kernel[1])};
  for (int axis = 0; axis < 2; ++axis) {
    p.stride[axis] = narrow(g.stride[axis]);
    p.dilation[axis] = narrow(g.dilation[axis]);
    p.pad[axis] = narrow(g.pad[axis]);
  }
  return p;
}

/// Of eight pieces of terms each.
std::int64_t steps_of(const ConvolutionGeometry& g) {
  return parts_of(g.kernel[0] * g.kernel[1] * pieces_of(g), 8);
}

template <class Shape>
std::int64_t tiles_of(const ConvolutionGeometry& g) {
  return parts_of(g.images * g.out_plane(), Shape::k_rows) * parts_of(g.outputs, Shape::k_columns);
}

using Large = TileShape<128, 128, 64, 32>;
using Narrow = TileShape<128, 64, 32, 32>;
using Small = TileShape<64, 64, 32, 32>;
using SmallShared = TileShape<64, 64, 32, 32, 6>;  // of which two find room: what one waits for comes at once

template <class Shape>
Divider<std::int32_t> tiles_across(const ConvolutionGeometry& g) {
  return Divider<std::int32_t>(parts_of(g.outputs, Shape::k_columns));
}

template <class T, class Shape, bool Pointwise>
void launch(const Queue& queue, const ConvolutionGeometry& g, const TiledConvolution<T>& p) {
  constexpr auto kernel = convolve_tiles_kernel<T, Shape, Pointwise, false>;
  const cudaStream_t stream = stream_of(queue);
  allow_shared<kernel, Shape::k_room>(queue.device().index);
  const int room = Shape::room(steps_of(g));
  kernel<<<static_cast<unsigned>(tiles_of<Shape>(g)), Shape::k_threads, room, stream>>>(p, tiles_across<Shape>(g));
  check_early_launch("convolution_fused", stream);
}

#ifdef __CUDACC__
/// `partners` blocks a tile: their number divides the tile's rows.
template <class T, class Shape, bool Pointwise>
void launch_shared(
    const Queue& queue, const ConvolutionGeometry& g, const TiledConvolution<T>& p, std::int64_t partners) {
  constexpr auto kernel = convolve_tiles_kernel<T, Shape, Pointwise, true>;
  const cudaStream_t stream = stream_of(queue);
  allow_shared<kernel, Shape::k_room>(queue.device().index);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(partners), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(tiles_of<Shape>(g) * partners));
  config.blockDim = dim3(Shape::k_threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(Shape::room((steps_of(g) + partners - 1) / partners));
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  cuda::cuda_check(cudaLaunchKernelEx(&config, kernel, p, tiles_across<Shape>(g)), "convolution_fused");
  note_early_launch(stream);
}
#endif

/// How many blocks share a tile, where tiles alone would leave multiprocessors without work: each has `least` steps.
template <class Shape>
std::int64_t partners_of(const ConvolutionGeometry& g, std::int64_t least) {
  constexpr std::int64_t k_most_partners = 8;
  std::int64_t partners = 1;
  while (partners < k_most_partners && tiles_of<Shape>(g) * partners * 2 <= 2 * k_multiprocessors &&
         steps_of(g) >= 2 * partners * least)
    partners *= 2;
  return partners;
}

// Of the tiles that a multiprocessor works at in turn the last ones may be few; a smaller tile reads more for what it
// multiplies.
template <class Shape>
double time_of(const ConvolutionGeometry& g, double each) {
  const std::int64_t turns = parts_of(tiles_of<Shape>(g), k_multiprocessors);
  return static_cast<double>(turns * Shape::k_rows * Shape::k_columns) * each;
}

template <class T, bool Pointwise>
void by_shape(const Queue& queue, const ConvolutionGeometry& g, const TiledConvolution<T>& p) {
#ifdef __CUDACC__
  if (kernels_wait_themselves()) {  // the code that runs is for 9.0 at least, so that it knows of clusters
    const std::int64_t large = partners_of<Large>(g, 16), small = partners_of<Small>(g, 2);
    const std::int64_t tiles = tiles_of<Large>(g);
    if (large > 1 && tiles <= k_multiprocessors / 2 && tiles * large > k_multiprocessors * 2 / 3)
      return launch_shared<T, Large, Pointwise>(queue, g, p, large);
    if (small > 1 && tiles <= k_multiprocessors / 2)
      return launch_shared<T, SmallShared, Pointwise>(queue, g, p, small);
  }
#endif
  const double large = time_of<Large>(g, 1), narrow = time_of<Narrow>(g, 1.15), small = time_of<Small>(g, 1.4);
  if (large <= narrow && large <= small)
    return launch<T, Large, Pointwise>(queue, g, p);
  if (narrow <= small)
    return launch<T, Narrow, Pointwise>(queue, g, p);
  return launch<T, Small, Pointwise>(queue, g, p);
}

template <class T>
void by_kind(
    const Queue& queue,
    const ConvolutionGeometry& g,
    const ConvolutionData& data,
    const ChannelEpilogue& then,
    std::int32_t row_end = k_piece_bytes) {
  const TiledConvolution<T> p = tiled<T>(g, data, then, row_end);
  g.is_pointwise() ? by_shape<T, true>(queue, g, p) : by_shape<T, false>(queue, g, p);
}

}  // namespace

bool is_tiled(
    const Queue& queue,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const ChannelEpilogue& then) {
  constexpr int k_least_capability = 80;  // what the kernel is written in begins there
  if (gpu_capability(queue.device().index) < k_least_capability)
    return false;
  if (size_of(g.dtype) != 2 || order != MemoryOrder::channels_last || g.groups != 1 || g.outputs % k_of_piece != 0)
    return false;
  if (!is_aligned(data.x) || !is_aligned(data.weight) || !is_aligned(data.y) || !is_aligned(then.residual))
    return false;
  const std::int64_t pieces = pieces_of(g), places = g.kernel[0] * g.kernel[1];
  const std::int64_t padded = (g.in[0] + g.pad[0] + g.pad_end[0]) * (g.in[1] + g.pad[1] + g.pad_end[1]);
  return g.images * g.out_plane() < k_most && g.images * padded * pieces < k_most / 2 && places * pieces < k_most &&
         (g.outputs + Large::k_columns) * places * pieces < k_most / 2 && g.kernel[0] * g.dilation[0] < k_most &&
         g.kernel[1] * g.dilation[1] < k_most && tiles_of<Small>(g) < k_most / 8;
}

void convolution_by_tiles(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then) {
  const auto run = [&]<class T>(T) {
    if (g.inputs % k_of_piece == 0) {
      if (!convolution_by_boxes(queue, g, data, then))
        by_kind<T>(queue, g, data, then);
      return;
    }
    const Refilled filled(g);
    const std::int64_t total = filled.x.total + filled.weight.total;
    const Workspace room(queue, static_cast<std::size_t>(total * k_piece_bytes));
    T* const x = room.as<T>();
    T* const weight = x + filled.x.total * k_of_piece;
    make_pieces(queue, data, x, weight, filled);
    ConvolutionData pieces = data;
    pieces.x = x;
    pieces.weight = weight;
    by_kind<T>(queue, filled.as, pieces, then, filled.row_end);
  };
  g.dtype == DType::float16 ? run(Half()) : run(BFloat16());
}

bool product_by_tiles([[maybe_unused]] const Queue& queue, [[maybe_unused]] const GemmProblem& p) {
#ifdef __CUDACC__
  constexpr int k_capability = 90;  // where it was measured
  constexpr std::int64_t k_of_float_piece = k_piece_bytes / 4, k_least_steps = 8, k_most_steps = 64;
  if (p.dtype != DType::float32 || current_float32_precision() != Float32Precision::high || p.batch != 1)
    return false;
  if (!kernels_wait_themselves() || gpu_capability(queue.device().index) != k_capability)
    return false;
  const bool lies = p.a.column == 1 && p.a.row == p.k && p.b.row == 1 && p.b.column == p.k && p.c.column == 1 &&
                    p.c.row == p.n && p.k % k_of_float_piece == 0 && p.n % k_of_float_piece == 0;
  const bool plain = !p.accumulate && p.row_bias == nullptr && p.mask == nullptr && !p.c_in_accumulator;
  if (!lies || !plain || !is_aligned(p.a.data) || !is_aligned(p.b.data) || !is_aligned(p.c.data))
    return false;
  if (p.m >= k_most || p.n >= k_most || p.k >= k_most || p.m * p.k >= k_most || p.n * p.k >= k_most)
    return false;
  // Rows are pixels, columns channels.
  const ConvolutionGeometry g{
      .dtype = p.dtype,
      .images = 1,
      .inputs = p.k,
      .outputs = p.n,
      .in = {1, p.m},
      .kernel = {1, 1},
      .out = {1, p.m},
      .stride = {1, 1},
      .dilation = {1, 1}};
  const std::int64_t partners = partners_of<SmallShared>(g, 2), steps = steps_of(g);
  if (tiles_of<SmallShared>(g) > k_multiprocessors / 2 || partners < 2 || steps < k_least_steps || steps > k_most_steps)
    return false;
  const ConvolutionData data{.x = p.a.data, .weight = p.b.data, .y = p.c.data};
  ChannelEpilogue then{};
  then.shift = p.column_bias;
  then.relu = p.relu;
  launch_shared<float, SmallShared, true>(queue, g, tiled<float>(g, data, then, k_piece_bytes), partners);
  return true;
#else
  return false;
#endif
}

}  // namespace sluice::detail
