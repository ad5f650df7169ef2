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
// Of its own: names may be those of other device files that are compiled as one
// with this.
namespace strips {
namespace {

constexpr int k_lanes = 32, k_least_warps = 16, k_step = 8, k_bytes = 4, k_piece = k_piece_bytes / k_bytes;
constexpr int k_wide = k_strip_columns / 8;  // tiles of a tensor core's product that a warp has side by side
// As many as have registers, by how many of those tiles a warp has one above
// the other.
template <int High>
constexpr int k_most_warps = High > 2 ? 16 : 20;
constexpr int k_room = k_strip_room;

struct Strips : ImageRows {
  const float *x = nullptr, *weight = nullptr, *scale = nullptr, *shift = nullptr, *residual = nullptr;
  float* y = nullptr;
  int columns = 0;  // outputs of a block
  // In floats: from pixel to pixel, from row to row of the weight, and where x
  // begins.
  int pitch = 0, weight_pitch = 0, x_at = 0;
  bool relu = false;
  Divider<std::int32_t> pieces,
      weight_pieces;                                // of a pixel, of a row of the weight
  Divider<std::int32_t> weight_rows, columns_read;  // of a tap, across()

  Strips(const ConvolutionGeometry& g, std::int64_t of_strip) : ImageRows(g, of_strip) {}
};

// Of rows [down, end) of the kernel. Rows of the weight: of a tap and an output its inputs, or, turned, of a tap and an
// input the block's outputs, where the first tap is the last.
template <bool Turned>
__device__ void fetch_weight(const Strips& p, int down, int end, float* to) {
  const int first_column = static_cast<int>(blockIdx.y) * p.columns, first = down * p.kernel[1];
  const int all = (end - down) * p.kernel[1] * p.weight_rows.value() * p.weight_pieces.value();
  to += first * p.weight_rows.value() * p.weight_pitch;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
    const int line = p.weight_pieces.divide(i), piece = i - line * p.weight_pieces.value();
    const int beside = p.weight_rows.divide(line), row = line - beside * p.weight_rows.value(), tap = first + beside;
    const float* const from = Turned ? p.weight + (row * p.taps() + p.taps() - 1 - tap) * p.outputs + first_column
                                     : p.weight + ((first_column + row) * p.taps() + tap) * p.inputs;
    fetch_piece(to + line * p.weight_pitch + piece * k_piece, from + piece * k_piece, k_piece_bytes);
  }
}

// The pieces of x that a thread brings: where each goes, and where it comes
// from, beside the image nowhere.
template <class Do>
__device__ void each_piece(const Strips& p, const Strip& strip, Do&& one) {
  const int all = (strip.rows - 1 + p.kernel[0]) * p.across() * p.pieces.value();
  for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
    const int pixel = p.pieces.divide(i), piece = i - pixel * p.pieces.value(), down = p.columns_read.divide(pixel);
    const int y = strip.first + down - p.pad[0], x = pixel - down * p.across() - p.pad[1];
    const bool there = y >= 0 && y < p.height && x >= 0 && x < p.width;
    one(pixel * p.pitch + piece * k_piece, (y * p.width + x) * p.inputs + piece * k_piece, there);
  }
}

// Zeros stand beside the image.
__device__ void fetch_pixels(const Strips& p, const Strip& strip, float* to) {
  const float* const from = p.x + strip.image * p.height * p.width * p.inputs;
  each_piece(p, strip, [&](int at, int place, bool there) {
    fetch_piece(to + at, from + (there ? place : 0), there ? k_piece_bytes : 0);
  });
}

// Once, where they lie, in the place of each time that a tap reads them.
__device__ void round_pixels(const Strips& p, const Strip& strip, float* pixels) {
  each_piece(p, strip, [&](int at, int, bool) { round_piece(pixels + at); });
}

template <int High>
using Sums = float[High][k_wide][4];

// A lane's numbers of eight channels, of its pixels and of its columns.
template <int High>
struct Terms {
  std::uint32_t a[High][4], b[k_wide][2];

  __device__ void add(Sums<High>& sums) {
#pragma unroll
    for (auto& pair : b) {
#pragma unroll
      for (std::uint32_t& number : pair)
        number = as_tf32(number_of(number));
    }
#pragma unroll
    for (int i = 0; i < High; ++i) {
#pragma unroll
      for (int j = 0; j < k_wide; ++j)
        multiply_add<float>(sums[i][j], a[i], b[j]);
    }
  }
};

// Where a lane finds those of a tile, `Steps` one behind the other at once. All
// places are numbers of bytes from the beginning: pointers would be to any
// memory, whose loads take longer.
template <int High, int Steps, bool Turned>
class Tile {
 public:
  __device__ Tile(const Strips& p, const float* room, int pixel, int pixels, int column)
      : p_(p), room_(reinterpret_cast<const unsigned char*>(room)) {
    const int lane = static_cast<int>(threadIdx.x) % k_lanes, line = lane % 8, low = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int i = 0; i < High; ++i) {
      const int own = pixel + 16 * i + 8 * low + line,
                there = own < pixels ? own : 0;  // of what is none nothing is kept
      pixels_[i] = k_bytes * (p.x_at + (there / p.out_width * p.across() + there % p.out_width) * p.pitch + high * 4);
    }
    weight_ = k_bytes * (Turned ? lane % 4 * p.weight_pitch + column + lane / 4
                                : (column + 8 * high + line) * p.weight_pitch + low * 4);
  }

  // The terms of a row of the kernel: all taps' channels, eight at once. Rows
  // come one after the other.
  __device__ void add_row(Sums<High>& sums) {
    int channel = 0, left = p_.kernel[1] * p_.inputs / (k_step * Steps);
    Terms<High> terms = take(0);
    while (true) {
#pragma unroll
      for (int step = 1; step < Steps; ++step) {
        const Terms<High> later = take(step);  // on its way while these are multiplied
        terms.add(sums);
        terms = later;
      }
      channel += Steps * k_step;
      const bool next_tap = channel == p_.inputs;
      channel = next_tap ? 0 : channel;
      go_on(next_tap);
      if (--left == 0)
        break;
      const Terms<High> later = take(0);
      terms.add(sums);
      terms = later;
    }
    terms.add(sums);
#pragma unroll
    for (int& pixel : pixels_)
      pixel += k_bytes * (p_.across() - p_.kernel[1]) * p_.pitch;
  }

 private:
  __device__ Terms<High> take(int step) const {
    Terms<High> terms;
#pragma unroll
    for (int i = 0; i < High; ++i)
      load_matrices(terms.a[i], room_ + pixels_[i] + step * k_step * k_bytes);
    if constexpr (Turned) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned char* const row = room_ + weight_ + (step * k_step + half * 4) * k_bytes * p_.weight_pitch;
#pragma unroll
        for (int j = 0; j < k_wide; ++j)
          terms.b[j][half] = bits_of(*reinterpret_cast<const float*>(row + j * 8 * k_bytes));
      }
    } else {
#pragma unroll
      for (int j = 0; j < k_wide; j += 2) {
        std::uint32_t both[4];
        load_matrices(both, room_ + weight_ + step * k_step * k_bytes + j * 8 * k_bytes * p_.weight_pitch);
#pragma unroll
        for (int part = 0; part < 4; ++part)
          terms.b[j + part / 2][part % 2] = both[part];
      }
    }
    return terms;
  }
  __device__ void go_on(bool next_tap) {
    constexpr int k_channels = k_bytes * k_step * Steps;
    const int pixels = k_channels + (next_tap ? k_bytes * (p_.pitch - p_.inputs) : 0);
#pragma unroll
    for (int& pixel : pixels_)
      pixel += pixels;
    if constexpr (Turned)
      weight_ += k_channels * p_.weight_pitch;
    else
      weight_ += k_channels + (next_tap ? k_bytes * (p_.columns * p_.weight_pitch - p_.inputs) : 0);
  }

  const Strips& p_;
  const unsigned char* room_;
  int pixels_[High], weight_;
};

template <int High>
__device__ void write_tile(const Strips& p, const Strip& strip, int pixel, int column, const Sums<High>& sums) {
  using Pair = Neighbours<float, 2>;
  const int lane = static_cast<int>(threadIdx.x) % k_lanes;
  const int first = static_cast<int>(blockIdx.y) * p.columns + column + lane % 4 * 2;
  const std::int64_t begin = (strip.image * p.out_height + strip.first) * p.out_width * p.outputs + first;
  const auto pair_of = [&](const float* numbers, int j, float otherwise) {
    return numbers == nullptr ? Pair{otherwise, otherwise} : Pair{numbers[first + j * 8], numbers[first + j * 8 + 1]};
  };
#pragma unroll
  for (int j = 0; j < k_wide; ++j) {
    const Pair scale = pair_of(p.scale, j, 1.0F), shift = pair_of(p.shift, j, 0.0F);
#pragma unroll
    for (int i = 0; i < 2 * High; ++i) {
      const int own = pixel + lane / 4 + 8 * i;
      if (own >= strip.pixels)
        continue;
      const std::int64_t at = begin + static_cast<std::int64_t>(own) * p.outputs + j * 8;
      Pair made;
#pragma unroll
      for (int k = 0; k < 2; ++k)
        made.at[k] = sums[i / 2][j][i % 2 * 2 + k] * scale.at[k] + shift.at[k];
      if (p.residual != nullptr) {
        const Pair beside = *reinterpret_cast<const Pair*>(p.residual + at);
#pragma unroll
        for (int k = 0; k < 2; ++k)
          made.at[k] += beside.at[k];
      }
#pragma unroll
      for (float& value : made.at)
        value = p.relu && value <= 0.0F ? 0.0F : value;  // NaN stays
      *reinterpret_cast<Pair*>(p.y + at) = made;
    }
  }
}

// The kernel's first row is multiplied while the weights of the others come.
template <int High, int Steps, bool Turned>
__global__ void __launch_bounds__(k_most_warps<High>* k_lanes) strip_tiles_kernel(const __grid_constant__ Strips p) {
  start_early();
  constexpr int k_pixels = 16 * High;
  auto* const room = reinterpret_cast<float*>(shared_room<k_room>());
  const Strip strip(p, static_cast<int>(blockIdx.x));
  fetch_pixels(p, strip, room + p.x_at);
  end_fetches();
  fetch_weight<Turned>(p, 0, 1, room);
  end_fetches();
  fetch_weight<Turned>(p, 1, p.kernel[0], room);
  end_fetches();
  await_fetches<2>();
  round_pixels(p, strip, room + p.x_at);
  const int warp = static_cast<int>(threadIdx.x) / k_lanes, warps = static_cast<int>(blockDim.x) / k_lanes;
  const int wide = p.columns / static_cast<int>(k_strip_columns);
  const int tiles = (strip.pixels + k_pixels - 1) / k_pixels * wide;
  for (int first = 0; first < tiles; first += warps) {
    const int index = first + warp, pixel = index / wide * k_pixels;
    const int column = index % wide * static_cast<int>(k_strip_columns);
    const bool own = index < tiles;
    Tile<High, Steps, Turned> tile(p, room, pixel, strip.pixels, column);
    Sums<High> sums = {};
    for (int down = 0; down < p.kernel[0]; ++down) {
      if (first == 0 && down < 2) {
        down == 0 ? await_fetches<1>() : await_fetches<0>();
        __syncthreads();
      }
      if (own)
        tile.add_row(sums);
    }
    if (own)
      write_tile<High>(p, strip, pixel, column, sums);
  }
}

Strips strips_of(ConvolutionPass pass, const StripPlan& plan, const ConvolutionData& d, const ChannelEpilogue& then) {
  const ConvolutionGeometry& g = plan.as;
  const bool turned = pass == ConvolutionPass::backward_data;
  const std::int64_t high = turned ? g.inputs : plan.columns, wide = turned ? plan.columns : g.inputs;
  Strips p(g, plan.rows);
  p.x = static_cast<const float*>(turned ? d.y : d.x);
  p.weight = static_cast<const float*>(d.weight);
  p.scale = static_cast<const float*>(then.scale);
  p.shift = static_cast<const float*>(then.bias != nullptr ? then.bias : then.shift);
  p.residual = static_cast<const float*>(then.residual);
  p.y = static_cast<float*>(turned ? d.x : d.y);
  p.columns = Strips::narrow(plan.columns);
  p.pitch = Strips::narrow(strip_pitch(g.inputs));
  p.weight_pitch = Strips::narrow(turned ? strip_turned_pitch(plan.columns) : strip_pitch(g.inputs));
  p.x_at = Strips::narrow(g.kernel[0] * g.kernel[1] * high * p.weight_pitch);
  p.relu = then.relu;
  p.pieces = Divider<std::int32_t>(g.inputs / k_piece);
  p.weight_pieces = Divider<std::int32_t>(wide / k_piece);
  p.weight_rows = Divider<std::int32_t>(high);
  p.columns_read = Divider<std::int32_t>(g.out[1] - 1 + g.kernel[1]);
  return p;
}

template <int High, bool Turned>
void launch(const Queue& queue, const StripPlan& plan, const Strips& p) {
  const dim3 grid(
      static_cast<unsigned>(plan.as.images * p.strips_each), static_cast<unsigned>(plan.as.outputs / plan.columns));
  // A tile for each warp where there are as many; those that have none fetch all the same.
  const std::int64_t tiles = parts_of(plan.rows * plan.as.out[1], 16 * High) * (plan.columns / k_strip_columns);
  const std::int64_t turns = parts_of(tiles, k_most_warps<High>);
  const auto warps = std::max<std::int64_t>(k_least_warps, parts_of(tiles, turns));
  const auto threads = static_cast<unsigned>(warps * k_lanes);
  const auto launch_steps = [&]<int Steps>() {
    allow_shared<strip_tiles_kernel<High, Steps, Turned>, k_room>(queue.device().index);
    strip_tiles_kernel<High, Steps, Turned>
        <<<grid, threads, static_cast<std::size_t>(plan.bytes), stream_of(queue)>>>(p);
  };
  constexpr int k_steps = 4;
  if (p.inputs % (k_steps * k_step) == 0)
    launch_steps.template operator()<k_steps>();
  else
    launch_steps.template operator()<1>();
}

void run(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    const ConvolutionData& data,
    const ChannelEpilogue& then) {
  const StripPlan plan = strip_plan(pass, g);
  const Strips p = strips_of(pass, plan, data, then);
  if (pass == ConvolutionPass::backward_data)
    plan.high == 2 ? launch<2, true>(queue, plan, p) : launch<3, true>(queue, plan, p);
  else
    plan.high == 2 ? launch<2, false>(queue, plan, p) : launch<3, false>(queue, plan, p);
  check_early_launch(pass == ConvolutionPass::forward ? "convolution" : "convolution_backward_data", stream_of(queue));
}

}  // namespace
}  // namespace strips

void convolution_by_strips(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    const ConvolutionData& data,
    const ChannelEpilogue& then) {
  strips::run(queue, pass, g, data, then);
}

}  // namespace sluice::detail
