// A block adds up 64 output channels by 32 input channels of all taps, of some rows of pixels: each warp has a tap, and
// all read the same pixels from shared memory. Blocks that share the rows leave sums of their own, which are added in
// their order.
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/operator/conv/image_rows.cuh>
#include <sluice/operator/conv/tensor_tiles.h>
#include <sluice/operator/conv/weight_tiles.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/tf32.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
// Of its own: names may be those of other device files that are compiled as one with this.
namespace weight_tiles {
namespace {

constexpr int k_lanes = 32, k_threads = k_lanes * static_cast<int>(k_weight_taps);
constexpr int k_outputs = k_weight_outputs, k_inputs = k_weight_inputs, k_step = 8;
constexpr int k_head_pitch = k_weight_head_pitch, k_value_pitch = k_weight_value_pitch;
constexpr int k_stages = 2, k_room = k_stages * (56 << 10), k_piece = k_piece_bytes / 4;
constexpr int k_high = k_outputs / 16, k_wide = k_inputs / 8;  // tiles of a tensor core's product

struct WeightTiles : ImageRows {
  const float *x = nullptr, *dy = nullptr;
  float* to = nullptr;           // of each block that shares the rows: a weight
  int strips = 0;                // of all images
  int values_at = 0, stage = 0;  // in floats: where x begins behind dy, and what a stage has

  WeightTiles(const ConvolutionGeometry& g, std::int64_t of_strip) : ImageRows(g, of_strip) {}
};

// Of pixels that are multiplied at once.
__device__ int steps_of(const Strip& strip) {
  return (strip.pixels + k_step - 1) / k_step;
}

__device__ void fetch_heads(const WeightTiles& p, const Strip& strip, float* to) {
  constexpr int k_pieces = k_outputs / k_piece;
  const int piece = static_cast<int>(threadIdx.x) % k_pieces * k_piece,
            beside = static_cast<int>(blockDim.x) / k_pieces;
  const float* const from = p.dy + (strip.image * p.out_height + strip.first) * p.out_width * p.outputs +
                            static_cast<int>(blockIdx.y) * k_outputs + piece;
  for (int pixel = static_cast<int>(threadIdx.x) / k_pieces; pixel < steps_of(strip) * k_step; pixel += beside) {
    const bool there = pixel < strip.pixels;
    fetch_piece(
        to + pixel * k_head_pitch + piece,
        from + (there ? static_cast<std::int64_t>(pixel) * p.outputs : 0),
        there ? k_piece_bytes : 0);
  }
}

// Zeros stand beside the image.
__device__ void fetch_values(const WeightTiles& p, const Strip& strip, float* to) {
  constexpr int k_pieces = k_inputs / k_piece;
  const int piece = static_cast<int>(threadIdx.x) % k_pieces * k_piece,
            beside = static_cast<int>(blockDim.x) / k_pieces;
  const int across = p.across(), begin = static_cast<int>(threadIdx.x) / k_pieces;
  const float* const from =
      p.x + strip.image * p.height * p.width * p.inputs + static_cast<int>(blockIdx.z) * k_inputs + piece;
  int row = begin / across, column = begin % across;
  while (row < strip.rows - 1 + p.kernel[0]) {
    const int y = strip.first + row - p.pad[0], x = column - p.pad[1];
    const bool there = y >= 0 && y < p.height && x >= 0 && x < p.width;
    fetch_piece(
        to + (row * across + column) * k_value_pitch + piece,
        from + (there ? static_cast<std::int64_t>(y * p.width + x) * p.inputs : 0),
        there ? k_piece_bytes : 0);
    for (column += beside; column >= across; column -= across)
      ++row;
  }
}

// Where a lane's pixel of x lies for the warp's tap, pixels going on by the step; behind the last one it is zeros.
class Place {
 public:
  __device__ Place(const WeightTiles& p, const Strip& strip, int warp, int pixel)
      : across_(p.across()),
        width_(p.out_width),
        pixel_(pixel),
        pixels_(strip.pixels),
        row_(pixel / p.out_width + warp / p.kernel[1]),
        column_(pixel % p.out_width),
        tap_(warp % p.kernel[1]),
        zeros_((p.rows - 1 + p.kernel[0]) * across_) {}
  __device__ int at() const { return (pixel_ < pixels_ ? row_ * across_ + column_ + tap_ : zeros_) * k_value_pitch; }
  __device__ void go_on() {
    pixel_ += k_step;
    for (column_ += k_step; column_ >= width_; column_ -= width_)
      ++row_;
  }

 private:
  int across_, width_, pixel_, pixels_, row_, column_, tap_, zeros_;
};

using Sums = float[k_high][k_wide][4];

// All places are numbers of floats from the beginning: pointers would be to any memory, whose loads take longer.
__device__ void add_strip(const WeightTiles& p, const Strip& strip, const float* room, int stage, Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % k_lanes, warp = static_cast<int>(threadIdx.x) / k_lanes;
  const int quarter = lane % 4, eighth = lane / 4, values = stage + p.values_at + eighth;
  int heads = stage + quarter * k_head_pitch + eighth;
  Place near(p, strip, warp, quarter), far(p, strip, warp, quarter + 4);
#pragma unroll 2
  for (int step = 0; step < steps_of(strip); ++step) {
    std::uint32_t a[k_high][4], b[k_wide][2];
    const int beside[] = {values + near.at(), values + far.at()};
#pragma unroll
    for (int i = 0; i < k_wide; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        b[i][half] = as_tf32(room[beside[half] + i * 8]);
    }
#pragma unroll
    for (int i = 0; i < k_high; ++i) {
#pragma unroll
      for (int part = 0; part < 4; ++part)
        a[i][part] = as_tf32(room[heads + part / 2 * 4 * k_head_pitch + i * 16 + part % 2 * 8]);
#pragma unroll
      for (int j = 0; j < k_wide; ++j)
        multiply_add<float>(sums[i][j], a[i], b[j]);
    }
    near.go_on();
    far.go_on();
    heads += k_step * k_head_pitch;
  }
}

__device__ void write_sums(const WeightTiles& p, const Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % k_lanes, tap = static_cast<int>(threadIdx.x) / k_lanes;
  const int taps = p.taps(), column = static_cast<int>(blockIdx.z) * k_inputs + lane % 4 * 2;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * p.outputs + blockIdx.y * k_outputs + lane / 4;
#pragma unroll
  for (int i = 0; i < k_high; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* const to = p.to + ((first + i * 16 + half * 8) * taps + tap) * p.inputs + column;
#pragma unroll
      for (int j = 0; j < k_wide; ++j)
        *reinterpret_cast<Neighbours<float, 2>*>(to + j * 8) = {sums[i][j][half * 2], sums[i][j][half * 2 + 1]};
    }
  }
}

__global__ void __launch_bounds__(k_threads) weight_tiles_kernel(WeightTiles p) {
  start_early();
  auto* const room = reinterpret_cast<float*>(shared_room<k_room>());
  for (int i = static_cast<int>(threadIdx.x); i < k_stages * k_value_pitch; i += static_cast<int>(blockDim.x))
    room[i / k_value_pitch * p.stage + p.stage - k_value_pitch + i % k_value_pitch] = 0;
  const std::int64_t all = p.strips;
  const auto begin = static_cast<int>(all * blockIdx.x / gridDim.x);
  const auto end = static_cast<int>(all * (blockIdx.x + 1) / gridDim.x);
  const auto fetch = [&](int at) {
    const Strip strip(p, at);
    float* const stage = room + (at - begin) % k_stages * p.stage;
    fetch_heads(p, strip, stage);
    fetch_values(p, strip, stage + p.values_at);
  };
  Sums sums = {};
  fetch(begin);
  end_fetches();
  for (int at = begin; at < end; ++at) {
    if (at + 1 < end)
      fetch(at + 1);
    end_fetches();
    await_fetches<k_stages - 1>();
    __syncthreads();
    add_strip(p, Strip(p, at), room, (at - begin) % k_stages * p.stage, sums);
    __syncthreads();
  }
  write_sums(p, sums);
}

constexpr int k_quads = 32, k_slices = 8;  // of a block that joins: quads of numbers, and threads for each

// Sums of `parts` weights of `quads` quads, in their order within each slice.
__global__ void __launch_bounds__(k_quads* k_slices)
    join_weights_kernel(const Neighbours<float, 4>* from, int parts, int quads, Neighbours<float, 4>* to) {
  start_early();
  __shared__ Neighbours<float, 4> sums[k_slices][k_quads];
  const int lane = static_cast<int>(threadIdx.x) % k_quads, slice = static_cast<int>(threadIdx.x) / k_quads;
  const int quad = static_cast<int>(blockIdx.x) * k_quads + lane;
  Neighbours<float, 4> sum{};
  const auto add = [](Neighbours<float, 4>& a, const Neighbours<float, 4>& b) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      a.at[j] += b.at[j];
  };
#pragma unroll 8
  for (int part = slice; part < parts; part += k_slices)
    add(sum, from[static_cast<std::int64_t>(part) * quads + quad]);
  sums[slice][lane] = sum;
  __syncthreads();
  if (slice > 0)
    return;
#pragma unroll
  for (int other = 1; other < k_slices; ++other)
    add(sum, sums[other][lane]);
  to[quad] = sum;
}

WeightTiles tiles_of(const ConvolutionGeometry& g, const ConvolutionData& d) {
  const WeightStrip strip = weight_strip(g);
  WeightTiles p(g, strip.rows);
  p.x = static_cast<const float*>(d.x);
  p.dy = static_cast<const float*>(d.y);
  p.to = static_cast<float*>(d.weight);
  p.strips = WeightTiles::narrow(p.strips_each * g.images);
  p.values_at = WeightTiles::narrow(parts_of(strip.rows * g.out[1], k_step) * k_step * k_head_pitch);
  p.stage = WeightTiles::narrow(strip.bytes / static_cast<std::int64_t>(sizeof(float)));
  return p;
}

void run(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data) {
  constexpr const char* k_name = "convolution_backward_weights";
  WeightTiles p = tiles_of(g, data);
  const cudaStream_t stream = stream_of(queue);
  const std::int64_t high = g.outputs / k_weight_outputs, wide = g.inputs / k_weight_inputs;
  const std::int64_t most = std::max<std::int64_t>(1, k_multiprocessors / (high * wide));
  const std::int64_t blocks = parts_of(p.strips, parts_of(p.strips, most));  // as many strips for each
  const std::int64_t values = g.weight_shape().size();
  const Workspace workspace(queue, blocks > 1 ? sizeof(float) * static_cast<std::size_t>(values * blocks) : 0);
  if (blocks > 1)
    p.to = workspace.as<float>();
  allow_shared<weight_tiles_kernel, k_room>(queue.device().index);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(high), static_cast<unsigned>(wide));
  const auto threads = static_cast<unsigned>(k_lanes * g.kernel[0] * g.kernel[1]);
  weight_tiles_kernel<<<grid, threads, k_stages * p.stage * sizeof(float), stream>>>(p);
  check_early_launch(k_name, stream);
  if (blocks == 1)
    return;
  constexpr int k_of_quad = 4;
  const auto quads = static_cast<int>(values / k_of_quad);
  join_weights_kernel<<<static_cast<unsigned>(quads / k_quads), k_quads * k_slices, 0, stream>>>(
      reinterpret_cast<const Neighbours<float, k_of_quad>*>(p.to),
      static_cast<int>(blocks),
      quads,
      static_cast<Neighbours<float, k_of_quad>*>(data.weight));
  check_early_launch(k_name, stream);
}

}  // namespace
}  // namespace weight_tiles

void weights_by_tiles_gpu(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data) {
  weight_tiles::run(queue, g, data);
}

}  // namespace sluice::detail
