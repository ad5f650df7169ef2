#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/conv/image_rows.cuh>
#include <sluice/operator/conv/strip_tiles.h>
#include <sluice/operator/conv/tensor_tiles.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/tf32.cuh>

namespace sluice::detail {
// Of its own: names may be those of other device files that are compiled as one with this.
namespace strips {
namespace {

constexpr int k_lanes = 32, k_least_warps = 4, k_most_warps = 20, k_step = 8, k_piece = k_piece_bytes / 4;
constexpr int k_high = 2, k_wide = k_strip_columns / 8, k_rows = 16 * k_high;  // tiles, and pixels, of a warp
constexpr int k_room = 224 << 10;

struct Strips : ImageRows {
  const float *x = nullptr, *weight = nullptr, *bias = nullptr;
  float* y = nullptr;
  int columns = 0;  // outputs of a block
  // In floats: from pixel to pixel, from row to row of the weight, and where x begins.
  int pitch = 0, weight_pitch = 0, x_at = 0;
  bool relu = false;
  Divider<std::int32_t> pieces, weight_pieces;      // of a pixel, of a row of the weight
  Divider<std::int32_t> weight_rows, columns_read;  // of a tap, across()

  Strips(const ConvolutionGeometry& g, std::int64_t of_strip) : ImageRows(g, of_strip) {}
};

// Rows of the weight: of a tap and an output its inputs, or, turned, of a tap and an input the block's outputs, where
// the first tap is the last.
template <bool Turned>
__device__ void fetch_weight(const Strips& p, float* to) {
  const int first_column = static_cast<int>(blockIdx.y) * p.columns, all = p.taps() * p.weight_rows.value();
  for (int i = static_cast<int>(threadIdx.x); i < all * p.weight_pieces.value(); i += static_cast<int>(blockDim.x)) {
    const int line = p.weight_pieces.divide(i), piece = i - line * p.weight_pieces.value();
    const int tap = p.weight_rows.divide(line), row = line - tap * p.weight_rows.value();
    const float* const from = Turned ? p.weight + (row * p.taps() + p.taps() - 1 - tap) * p.outputs + first_column
                                     : p.weight + ((first_column + row) * p.taps() + tap) * p.inputs;
    fetch_piece(to + line * p.weight_pitch + piece * k_piece, from + piece * k_piece, k_piece_bytes);
  }
}

// Zeros stand beside the image.
__device__ void fetch_pixels(const Strips& p, const Strip& strip, float* to) {
  const float* const from = p.x + strip.image * p.height * p.width * p.inputs;
  const int all = (strip.rows - 1 + p.kernel[0]) * p.across() * p.pieces.value();
  for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
    const int pixel = p.pieces.divide(i), piece = i - pixel * p.pieces.value(), down = p.columns_read.divide(pixel);
    const int y = strip.first + down - p.pad[0], x = pixel - down * p.across() - p.pad[1];
    const bool there = y >= 0 && y < p.height && x >= 0 && x < p.width;
    fetch_piece(
        to + pixel * p.pitch + piece * k_piece,
        from + (there ? (y * p.width + x) * p.inputs + piece * k_piece : 0),
        there ? k_piece_bytes : 0);
  }
}

using Sums = float[k_high][k_wide][4];

// A lane's numbers of eight channels: of its pixels, which begin at `pixels` in shared memory, and of its columns.
template <bool Turned>
__device__ void add_channels(
    const Strips& p, const float* room, const int (&pixels)[2 * k_high], int weight, Sums& sums) {
  const int next = Turned ? 4 * p.weight_pitch : 4, beside = Turned ? 8 : 8 * p.weight_pitch;
  std::uint32_t a[k_high][4], b[k_wide][2];
#pragma unroll
  for (int i = 0; i < k_high; ++i) {
#pragma unroll
    for (int part = 0; part < 4; ++part)
      a[i][part] = as_tf32(room[pixels[2 * i + part % 2] + part / 2 * 4]);
  }
#pragma unroll
  for (int j = 0; j < k_wide; ++j) {
    b[j][0] = as_tf32(room[weight + j * beside]);
    b[j][1] = as_tf32(room[weight + j * beside + next]);
  }
#pragma unroll
  for (int i = 0; i < k_high; ++i) {
#pragma unroll
    for (int j = 0; j < k_wide; ++j)
      multiply_add<float>(sums[i][j], a[i], b[j]);
  }
}

// All places are numbers of floats from the beginning: pointers would be to any memory, whose loads take longer.
template <bool Turned>
__device__ void add_tile(const Strips& p, const float* room, int pixel, int pixels, int column, Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % k_lanes, quarter = lane % 4, eighth = lane / 4;
  int at[2 * k_high];
#pragma unroll
  for (int i = 0; i < 2 * k_high; ++i) {
    const int own = pixel + eighth + 8 * i, there = own < pixels ? own : 0;  // of what is none nothing is kept
    at[i] = p.x_at + (there / p.out_width * p.across() + there % p.out_width) * p.pitch + quarter;
  }
  int weight = Turned ? quarter * p.weight_pitch + column + eighth : (column + eighth) * p.weight_pitch + quarter;
  const int of_tap = (Turned ? p.inputs : p.columns) * p.weight_pitch;
  for (int down = 0; down < p.kernel[0]; ++down) {
    for (int right = 0; right < p.kernel[1]; ++right, weight += of_tap) {
      int pixel_at[2 * k_high], channels = weight;
#pragma unroll
      for (int i = 0; i < 2 * k_high; ++i)
        pixel_at[i] = at[i] + (down * p.across() + right) * p.pitch;
#pragma unroll 4
      for (int c = 0; c < p.inputs; c += k_step) {
        add_channels<Turned>(p, room, pixel_at, channels, sums);
#pragma unroll
        for (int i = 0; i < 2 * k_high; ++i)
          pixel_at[i] += k_step;
        channels += Turned ? k_step * p.weight_pitch : k_step;
      }
    }
  }
}

__device__ void write_tile(const Strips& p, const Strip& strip, int pixel, int column, const Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % k_lanes;
  const int first = static_cast<int>(blockIdx.y) * p.columns + column + lane % 4 * 2;
  float* const to = p.y + (strip.image * p.out_height + strip.first) * p.out_width * p.outputs + first;
#pragma unroll
  for (int j = 0; j < k_wide; ++j) {
    Neighbours<float, 2> bias{};
    if (p.bias != nullptr)
      bias = {p.bias[first + j * 8], p.bias[first + j * 8 + 1]};
#pragma unroll
    for (int i = 0; i < 2 * k_high; ++i) {
      const int own = pixel + lane / 4 + 8 * i;
      if (own >= strip.pixels)
        continue;
      Neighbours<float, 2> made;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float value = sums[i / 2][j][i % 2 * 2 + k] + bias.at[k];
        made.at[k] = p.relu && value <= 0.0F ? 0.0F : value;  // NaN stays
      }
      *reinterpret_cast<Neighbours<float, 2>*>(to + static_cast<std::int64_t>(own) * p.outputs + j * 8) = made;
    }
  }
}

template <bool Turned>
__global__ void __launch_bounds__(k_most_warps* k_lanes) strip_tiles_kernel(Strips p) {
  start_early();
  auto* const room = reinterpret_cast<float*>(shared_room<k_room>());
  const Strip strip(p, static_cast<int>(blockIdx.x));
  fetch_weight<Turned>(p, room);
  fetch_pixels(p, strip, room + p.x_at);
  end_fetches();
  await_fetches<0>();
  __syncthreads();
  const int wide = p.columns / static_cast<int>(k_strip_columns), high = (strip.pixels + k_rows - 1) / k_rows;
  for (int tile = static_cast<int>(threadIdx.x) / k_lanes; tile < high * wide;
       tile += static_cast<int>(blockDim.x) / k_lanes) {
    const int pixel = tile / wide * k_rows, column = tile % wide * static_cast<int>(k_strip_columns);
    Sums sums = {};
    add_tile<Turned>(p, room, pixel, strip.pixels, column, sums);
    write_tile(p, strip, pixel, column, sums);
  }
}

Strips strips_of(ConvolutionPass pass, const StripPlan& plan, const ConvolutionData& d, bool relu) {
  const ConvolutionGeometry& g = plan.as;
  const bool turned = pass == ConvolutionPass::backward_data;
  const std::int64_t high = turned ? g.inputs : plan.columns, wide = turned ? plan.columns : g.inputs;
  Strips p(g, plan.rows);
  p.x = static_cast<const float*>(turned ? d.y : d.x);
  p.weight = static_cast<const float*>(d.weight);
  p.bias = static_cast<const float*>(d.bias);
  p.y = static_cast<float*>(turned ? d.x : d.y);
  p.columns = Strips::narrow(plan.columns);
  p.pitch = Strips::narrow(strip_pitch(g.inputs));
  p.weight_pitch = Strips::narrow(turned ? strip_turned_pitch(plan.columns) : strip_pitch(g.inputs));
  p.x_at = Strips::narrow(g.kernel[0] * g.kernel[1] * high * p.weight_pitch);
  p.relu = relu;
  p.pieces = Divider<std::int32_t>(g.inputs / k_piece);
  p.weight_pieces = Divider<std::int32_t>(wide / k_piece);
  p.weight_rows = Divider<std::int32_t>(high);
  p.columns_read = Divider<std::int32_t>(g.out[1] - 1 + g.kernel[1]);
  return p;
}

void run(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data, bool relu) {
  const StripPlan plan = strip_plan(pass, g);
  const Strips p = strips_of(pass, plan, data, relu);
  const dim3 grid(
      static_cast<unsigned>(plan.as.images * p.strips_each), static_cast<unsigned>(plan.as.outputs / plan.columns));
  // A tile for each warp where there are as many.
  const std::int64_t tiles = parts_of(plan.rows * plan.as.out[1], k_rows) * (plan.columns / k_strip_columns);
  const std::int64_t turns = parts_of(tiles, k_most_warps);
  const auto warps = std::max<std::int64_t>(k_least_warps, parts_of(tiles, turns));
  const auto threads = static_cast<unsigned>(warps * k_lanes);
  const auto launch = [&]<bool Turned>() {
    allow_shared<strip_tiles_kernel<Turned>, k_room>(queue.device().index);
    strip_tiles_kernel<Turned><<<grid, threads, static_cast<std::size_t>(plan.bytes), stream_of(queue)>>>(p);
  };
  if (pass == ConvolutionPass::backward_data)
    launch.operator()<true>();
  else
    launch.operator()<false>();
  check_early_launch(pass == ConvolutionPass::forward ? "convolution" : "convolution_backward_data", stream_of(queue));
}

}  // namespace
}  // namespace strips

void convolution_by_strips(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data, bool relu) {
  strips::run(queue, pass, g, data, relu);
}

}  // namespace sluice::detail
