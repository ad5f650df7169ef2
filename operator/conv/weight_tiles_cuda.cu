// A block adds up 64 output channels by 32 input channels of all taps, of some rows of pixels: each warp has up to
// three taps of a quarter of the channels' products, and all read the same pixels from shared memory. Blocks that share
// the rows leave sums of their own, which are added in their order.
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

constexpr int k_most_own = 3;       // taps of a warp
constexpr int k_warps_of_taps = 4;  // which share some taps' channels out
constexpr int k_lanes = 32, k_threads = k_lanes * k_warps_of_taps * static_cast<int>(k_weight_taps) / k_most_own;
constexpr int k_outputs = k_weight_outputs, k_inputs = k_weight_inputs, k_step = 8;
constexpr int k_head_pitch = k_weight_head_pitch, k_value_pitch = k_weight_value_pitch;
constexpr int k_stages = 2, k_room = k_stages * k_weight_strip_bytes + (1 << 10), k_bytes = 4,
              k_piece = k_piece_bytes / k_bytes;
constexpr int k_own_outputs = k_outputs / 2, k_own_inputs = k_inputs / 2;  // of a warp
constexpr int k_high = k_own_outputs / 16, k_wide = k_own_inputs / 8;      // tiles of a tensor core's product

struct WeightTiles : ImageRows {
  const float *x = nullptr, *dy = nullptr;
  float* to = nullptr;  // of each block that shares the rows: a weight
  int strips = 0;       // of all images
  // In floats: where x begins behind dy, what a stage has, and where pixels' places lie behind the stages.
  int values_at = 0, stage = 0, places_at = 0;
  int steps = 0;                   // of a strip, of pixels that are multiplied at once
  int tap_at[k_weight_taps] = {};  // of taps' pixels behind the first tap's, in bytes

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

// The pieces of x that a thread brings: where each goes, and where it comes from, beside the image nowhere.
template <class Do>
__device__ void each_value(const WeightTiles& p, const Strip& strip, Do&& one) {
  constexpr int k_pieces = k_inputs / k_piece;
  const int piece = static_cast<int>(threadIdx.x) % k_pieces * k_piece,
            beside = static_cast<int>(blockDim.x) / k_pieces;
  const int across = p.across(), begin = static_cast<int>(threadIdx.x) / k_pieces;
  int row = begin / across, column = begin % across;
  while (row < strip.rows - 1 + p.kernel[0]) {
    const int y = strip.first + row - p.pad[0], x = column - p.pad[1];
    const bool there = y >= 0 && y < p.height && x >= 0 && x < p.width;
    one((row * across + column) * k_value_pitch + piece, (y * p.width + x) * p.inputs + piece, there);
    for (column += beside; column >= across; column -= across)
      ++row;
  }
}

// Zeros stand beside the image.
__device__ void fetch_values(const WeightTiles& p, const Strip& strip, float* to) {
  const float* const from = p.x + strip.image * p.height * p.width * p.inputs + static_cast<int>(blockIdx.z) * k_inputs;
  each_value(p, strip, [&](int at, int place, bool there) {
    fetch_piece(to + at, from + (there ? place : 0), there ? k_piece_bytes : 0);
  });
}

// Once, where it lies, in the place of each time that a tap reads it.
__device__ void round_values(const WeightTiles& p, const Strip& strip, float* values) {
  each_value(p, strip, [&](int at, int, bool) { round_piece(values + at); });
}

// In bytes, where pixels of x lie for the first tap, of all strips: of each step for each quarter of a warp the near
// and the far one. No step is behind the last one.
__device__ void write_places(const WeightTiles& p, int* places) {
  for (int i = static_cast<int>(threadIdx.x); i < p.steps * k_step; i += static_cast<int>(blockDim.x)) {
    const int pixel = i / k_step * k_step + i % 2 * 4 + i % k_step / 2;
    places[i] = (pixel / p.out_width * p.across() + pixel % p.out_width) * k_value_pitch * k_bytes;
  }
}

// A warp's share of a block: some taps of half the output and half the input channels.
template <int Taps, bool InRow>
struct Share {
  int group, groups;    // of warps with the same taps
  int first, end;       // of the taps
  int heads, values;    // a lane's first numbers of a pixel, in bytes: of two output channels, of an input channel
  int taps_at[Taps];    // of these behind one that the first one meets; behind the last one that one again
  int quarter, eighth;  // of a lane
  int outputs, inputs;  // the warp's first ones

  __device__ explicit Share(const WeightTiles& p)
      : quarter(static_cast<int>(threadIdx.x) % 4), eighth(static_cast<int>(threadIdx.x) % k_lanes / 4) {
    const int warp = static_cast<int>(threadIdx.x) / k_lanes;
    group = warp / k_warps_of_taps;
    groups = static_cast<int>(blockDim.x) / (k_lanes * k_warps_of_taps);
    first = p.taps() * group / groups;
    end = p.taps() * (group + 1) / groups;
    outputs = warp % 2 * k_own_outputs;
    inputs = warp / 2 % 2 * k_own_inputs;
    heads = (quarter * k_head_pitch + outputs + eighth * 2) * k_bytes;
    values = (p.values_at + inputs + eighth) * k_bytes + (InRow ? p.tap_at[first] : 0);
#pragma unroll
    for (int i = 0; i < Taps; ++i)
      taps_at[i] = InRow ? i * k_value_pitch * k_bytes : p.tap_at[first + i < end ? first + i : end - 1];
  }
};

template <int Taps>
using Sums = float[Taps][k_high][k_wide][4];

// A lane's numbers of eight pixels. Which output channel a row of a product is is free: two neighbours, which come in
// one load, are rows 8 apart.
template <int Taps>
struct Terms {
  Neighbours<float, 2> heads[k_high][2];
  std::uint32_t values[Taps][k_wide][2];

  __device__ void add(Sums<Taps>& sums) const {
    std::uint32_t a[k_high][4];
#pragma unroll
    for (int i = 0; i < k_high; ++i) {
#pragma unroll
      for (int part = 0; part < 4; ++part)
        a[i][part] = as_tf32(heads[i][part / 2].at[part % 2]);
    }
#pragma unroll
    for (int tap = 0; tap < Taps; ++tap) {
#pragma unroll
      for (int j = 0; j < k_wide; ++j) {
#pragma unroll
        for (int i = 0; i < k_high; ++i)
          multiply_add<float>(sums[tap][i][j], a[i], values[tap][j]);
      }
    }
  }
};

// All places are numbers of bytes from the beginning: pointers would be to any memory, whose loads take longer.
template <class T>
__device__ T there(const float* room, int at) {
  return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(room) + at);
}

// Between the steps a warp brings what comes next, `between(0)` and half a strip later `between(1)`: each group of
// warps at a time of its own, so that others multiply meanwhile.
template <int Taps, bool InRow, class Do>
__device__ void add_strip(
    const WeightTiles& p,
    const Share<Taps, InRow>& share,
    const Strip& strip,
    const float* room,
    int stage,
    Sums<Taps>& sums,
    Do&& between) {
  using Places = Neighbours<int, 2>;
  const int values = stage * k_bytes + share.values;
  int heads = stage * k_bytes + share.heads, next = p.places_at * k_bytes + share.quarter * sizeof(Places);
  Places places = there<Places>(room, next);
  const auto take = [&](auto inside) {  // whether the pixels are the strip's
    Terms<Taps> terms;
#pragma unroll
    for (int i = 0; i < k_high; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        terms.heads[i][half] = there<Neighbours<float, 2>>(room, heads + (half * 4 * k_head_pitch + i * 16) * k_bytes);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int tap = 0; tap < Taps; ++tap) {
        const int at = inside(half, values + places.at[half] + share.taps_at[tap]);
#pragma unroll
        for (int j = 0; j < k_wide; ++j)
          terms.values[tap][j][half] = there<std::uint32_t>(room, at + j * 8 * k_bytes);
      }
    }
    heads += k_step * k_head_pitch * k_bytes;
    next += 4 * sizeof(Places);
    places = there<Places>(room, next);
    return terms;
  };
  const int whole = strip.pixels / k_step, left = strip.pixels % k_step;
  const int begins = whole * share.group / (2 * share.groups), ends = begins + whole / 2;
#pragma unroll 1
  for (int step = 0, part = 0; part < 3; ++part) {
    const int end = part == 0 ? begins : part == 1 ? ends : whole;
    if (step < end) {
      const auto all = [](int, int at) { return at; };
      Terms<Taps> terms = take(all);
#pragma unroll 2
      for (++step; step < end; ++step) {
        const Terms<Taps> later = take(all);  // on its way while these are multiplied
        terms.add(sums);
        terms = later;
      }
      terms.add(sums);
    }
    if (part < 2)
      between(part);
  }
  if (left > 0) {
    const int zeros = (stage + p.stage - k_value_pitch) * k_bytes;
    take([&](int half, int at) { return share.quarter + half * 4 < left ? at : zeros; }).add(sums);
  }
}

template <int Taps, bool InRow>
__device__ void write_sums(const WeightTiles& p, const Share<Taps, InRow>& share, const Sums<Taps>& sums) {
  const int taps = p.taps(), column = static_cast<int>(blockIdx.z) * k_inputs + share.inputs + share.quarter * 2;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * p.outputs + blockIdx.y * k_outputs + share.outputs + share.eighth * 2;
#pragma unroll
  for (int tap = 0; tap < Taps; ++tap) {
    if (share.first + tap >= share.end)
      return;
#pragma unroll
    for (int i = 0; i < k_high; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const to = p.to + ((first + i * 16 + half) * taps + share.first + tap) * p.inputs + column;
#pragma unroll
        for (int j = 0; j < k_wide; ++j)
          *reinterpret_cast<Neighbours<float, 2>*>(to + j * 8) = {
              sums[tap][i][j][half * 2], sums[tap][i][j][half * 2 + 1]};
      }
    }
  }
}

template <int Taps, bool InRow>
__global__ void __launch_bounds__(k_threads) weight_tiles_kernel(const __grid_constant__ WeightTiles p) {
  start_early();
  auto* const room = reinterpret_cast<float*>(shared_room<k_room>());
  for (int i = static_cast<int>(threadIdx.x); i < k_stages * k_value_pitch; i += static_cast<int>(blockDim.x))
    room[i / k_value_pitch * p.stage + p.stage - k_value_pitch + i % k_value_pitch] = 0;
  write_places(p, reinterpret_cast<int*>(room + p.places_at));
  const std::int64_t all = p.strips;
  const auto begin = static_cast<int>(all * blockIdx.x / gridDim.x);
  const auto end = static_cast<int>(all * (blockIdx.x + 1) / gridDim.x);
  const auto stage = [&](int at) { return (at - begin) % k_stages * p.stage; };
  const auto fetch = [&](int at) {
    const Strip strip(p, at);
    fetch_heads(p, strip, room + stage(at));
    fetch_values(p, strip, room + stage(at) + p.values_at);
    end_fetches();
  };
  const auto end_fetch = [&](int at) {
    await_fetches<0>();
    round_values(p, Strip(p, at), room + stage(at) + p.values_at);
  };
  const Share<Taps, InRow> share(p);
  Sums<Taps> sums = {};
  fetch(begin);
  end_fetch(begin);
  for (int at = begin; at < end; ++at) {
    __syncthreads();  // nobody reads the strip before any more
    add_strip(p, share, Strip(p, at), room, stage(at), sums, [&](int part) {
      if (at + 1 < end)
        part == 0 ? fetch(at + 1) : end_fetch(at + 1);
    });
  }
  write_sums(p, share, sums);
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
  constexpr int k_at_once = 16;  // on their way: loads without conditions, where there is none of the first one
  for (int begin = slice; begin < parts; begin += k_at_once * k_slices) {
    Neighbours<float, 4> some[k_at_once];
#pragma unroll
    for (int i = 0; i < k_at_once; ++i) {
      const int part = begin + i * k_slices;
      some[i] = from[static_cast<std::int64_t>(part < parts ? part : 0) * quads + quad];
    }
#pragma unroll
    for (int i = 0; i < k_at_once; ++i) {
      if (begin + i * k_slices < parts)
        add(sum, some[i]);
    }
  }
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
  p.places_at = k_stages * p.stage;
  p.steps = WeightTiles::narrow(parts_of(strip.rows * g.out[1], k_step));
  for (std::int64_t tap = 0; tap < g.kernel[0] * g.kernel[1]; ++tap)
    p.tap_at[tap] = WeightTiles::narrow(
        (tap / g.kernel[1] * (g.out[1] - 1 + g.kernel[1]) + tap % g.kernel[1]) * k_value_pitch * k_bytes);
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
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(high), static_cast<unsigned>(wide));
  const std::int64_t taps = g.kernel[0] * g.kernel[1], groups = parts_of(taps, k_most_own);
  const auto threads = static_cast<unsigned>(groups * k_warps_of_taps * k_lanes);
  const std::size_t room =
      sizeof(float) * (k_stages * p.stage + (p.steps + 1) * k_step);  // one is read beyond the last
  const auto launch = [&]<int Taps, bool InRow>() {
    allow_shared<weight_tiles_kernel<Taps, InRow>, k_room>(queue.device().index);
    weight_tiles_kernel<Taps, InRow><<<grid, threads, room, stream>>>(p);
  };
  const std::int64_t own = parts_of(taps, groups);
  const bool in_row = g.kernel[1] % own == 0;
  if (own == 2)
    in_row ? launch.template operator()<2, true>() : launch.template operator()<2, false>();
  else
    in_row ? launch.template operator()<k_most_own, true>() : launch.template operator()<k_most_own, false>();
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
