#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/conv/patches.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

// A thread adds up the weights of k_terms terms and k_shallow_own channels, and those channels' biases. A block's
// threads are: quads of channels, lanes that share its pixels out, and 1, 2 or 4 groups for the terms.
constexpr int k_terms = 9, k_own = k_shallow_own, k_sums = (k_terms + 1) * k_own;
constexpr int k_quads = k_shallow_channels / k_own, k_warps = k_shallow_block / 32;

template <class T>
struct ShallowWeights {
  Patches patches;
  const T* x;
  const T* dy;
  const T* result;       // may be null
  Compute<T>* partials;  // of each block that shares the pixels: weights as they lie, then biases
  std::int32_t tiles;    // of pixels
  int outputs;
  bool last, vectors;
  __device__ __host__ int values() const { return outputs * (patches.depth + 1); }
};

// NaN passes the head on.
template <class T>
__device__ Compute<T> masked(const ShallowWeights<T>& p, T head, T result) {
  const bool hidden = p.result != nullptr && static_cast<Compute<T>>(result) <= Compute<T>(0);
  return hidden ? Compute<T>(0) : static_cast<Compute<T>>(head);
}

// heads[channel][pixel]: that pitch is one more than a multiple of 8, so that quads times pixels of a warp meet
// different banks.
template <class Acc>
constexpr int k_pitch = k_shallow_pixels<Acc> + 1;

// Channels are neighbours: quads of them, in one load with `vectors`. What is not there is loaded from the beginning,
// for loads without conditions are all under way at once.
template <bool vectors, class T, class Acc>
__device__ void take_quads(const ShallowWeights<T>& p, std::int32_t first, int first_channel, Acc* heads) {
  constexpr int loads = k_shallow_pixels<Acc> * k_quads / k_shallow_block, beside = k_shallow_block / k_quads;
  using Quad = Neighbours<T, k_own>;
  const int quad = static_cast<int>(threadIdx.x) % k_quads * k_own, mine = static_cast<int>(threadIdx.x) / k_quads;
  const int channels = p.outputs - first_channel - quad;  // from there on
  const T* const results = p.result != nullptr ? p.result : p.dy;
  Quad head[loads], result[loads];
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const std::int32_t pixel = first + mine + i * beside;
    const bool real = pixel < p.patches.pixels && channels > 0;
    const std::int32_t at = real ? pixel * p.outputs + first_channel + quad : 0;
    if constexpr (vectors) {
      head[i] = *reinterpret_cast<const Quad*>(p.dy + at);
      result[i] = *reinterpret_cast<const Quad*>(results + at);
    } else {
#pragma unroll
      for (int j = 0; j < k_own; ++j) {
        head[i].at[j] = p.dy[j < channels ? at + j : 0];
        result[i].at[j] = results[j < channels ? at + j : 0];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const bool inside = first + mine + i * beside < p.patches.pixels;
#pragma unroll
    for (int j = 0; j < k_own; ++j)
      heads[(quad + j) * k_pitch<Acc> + mine + i * beside] =
          inside && j < channels ? masked<T>(p, head[i].at[j], result[i].at[j]) : Acc(0);
  }
}

// Pixels are neighbours: a warp takes 32 of them, of one channel after the other.
template <class T, class Acc>
__device__ void take_rows(const ShallowWeights<T>& p, std::int32_t first, int first_channel, Acc* heads) {
  constexpr int parts = k_shallow_pixels<Acc> / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int32_t plane = p.patches.plane.value();
  const int channel = first_channel + warp * k_own, channels = p.outputs - channel;  // from there on
  const T* const results = p.result != nullptr ? p.result : p.dy;
  T head[parts][k_own], result[parts][k_own];
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    const std::int32_t pixel = first + i * 32 + lane, image = p.patches.plane.divide(pixel);
    const bool real = pixel < p.patches.pixels;
    const std::int32_t at = (image * p.outputs + channel) * plane + (pixel - image * plane);
#pragma unroll
    for (int j = 0; j < k_own; ++j) {
      head[i][j] = p.dy[real && j < channels ? at + j * plane : 0];
      result[i][j] = results[real && j < channels ? at + j * plane : 0];
    }
  }
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    const bool real = first + i * 32 + lane < p.patches.pixels;
#pragma unroll
    for (int j = 0; j < k_own; ++j)
      heads[(warp * k_own + j) * k_pitch<Acc> + i * 32 + lane] =
          real && j < channels ? masked<T>(p, head[i][j], result[i][j]) : Acc(0);
  }
}

// A tile of pixels, added to what a thread has: sums[term][channel], then those of the heads.
template <int groups, class Acc>
__device__ void add_tile(const Acc* tile, const Acc* heads, int quad, int lane, int group, Acc (&sums)[k_sums]) {
  constexpr int pixels = k_shallow_pixels<Acc>, lanes = 32 / groups;
#pragma unroll 2
  for (int pixel = lane; pixel < pixels; pixel += lanes) {
    Acc head[k_own];
#pragma unroll
    for (int j = 0; j < k_own; ++j) {
      head[j] = heads[(quad * k_own + j) * k_pitch<Acc> + pixel];
      sums[k_terms * k_own + j] += head[j];
    }
#pragma unroll
    for (int k = 0; k < k_terms; ++k) {
      const Acc value = tile[(group * k_terms + k) * pixels + pixel];
#pragma unroll
      for (int j = 0; j < k_own; ++j)
        sums[k * k_own + j] += value * head[j];
    }
  }
}

// Joins the sums of two threads: each goes on with its half of them.
template <int count, class Acc>
__device__ void join_halves(Acc (&sums)[k_sums], int lanes, bool upper) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i) {
    const Acc given = upper ? sums[i] : sums[i + count / 2];
    const Acc kept = upper ? sums[i + count / 2] : sums[i];
    sums[i] = kept + shuffle_xor(given, lanes);
  }
}

// What the block's threads added up, in a fixed order, as its partial result.
template <int groups, class T, class Acc>
__device__ void write_partials(const ShallowWeights<T>& p, int first_channel, const Acc* parts) {
  constexpr int warps = k_warps / groups, share = k_sums * k_quads;  // of a group; of a warp
  const int depth = p.patches.depth;
  Acc* const to = p.partials + static_cast<std::int64_t>(blockIdx.x) * p.values();
  for (int i = static_cast<int>(threadIdx.x); i < groups * share; i += k_shallow_block) {
    const int group = i / share, place = i % share;
    const int term = place / k_quads / k_own,
              channel = first_channel + place % k_quads * k_own + place / k_quads % k_own;
    const bool bias = term == k_terms;
    if (channel >= p.outputs || (bias ? group > 0 : group * k_terms + term >= depth))
      continue;
    Acc sum = parts[group * warps * share + place];
#pragma unroll
    for (int warp = 1; warp < warps; ++warp)
      sum += parts[(group * warps + warp) * share + place];
    to[bias ? p.outputs * depth + channel : channel * depth + group * k_terms + term] = sum;
  }
}

template <int groups, class T>
__global__ void __launch_bounds__(k_shallow_block) shallow_weights_kernel(ShallowWeights<T> p) {
  start_early();
  using Acc = Compute<T>;
  constexpr int pixels = k_shallow_pixels<Acc>, rows = groups * k_terms, lanes = 32 / groups;
  constexpr int for_heads = k_shallow_channels * k_pitch<Acc>, for_parts = k_warps * k_sums * k_quads;
  __shared__ Acc tile[rows * pixels];
  __shared__ Acc heads[for_heads > for_parts ? for_heads : for_parts];
  const int thread = static_cast<int>(threadIdx.x), quad = thread % k_quads;
  const int lane = thread / k_quads % lanes, group = thread / (k_quads * lanes);
  const int first_channel = static_cast<int>(blockIdx.y) * k_shallow_channels;

  Acc sums[k_sums] = {};
  for (auto i = static_cast<std::int32_t>(blockIdx.x); i < p.tiles; i += static_cast<std::int32_t>(gridDim.x)) {
    if (p.last && p.vectors)
      take_quads<true>(p, i * pixels, first_channel, heads);
    else if (p.last)
      take_quads<false>(p, i * pixels, first_channel, heads);
    else
      take_rows(p, i * pixels, first_channel, heads);
    unfold_patches(p.patches, p.x, i * pixels, rows, tile);
    __syncthreads();
    add_tile<groups>(tile, heads, quad, lane, group, sums);
    __syncthreads();
  }

  // Four lanes of a warp have the same quad: they join as far as each having a quarter of the sums, warps in memory.
  const bool upper = (thread & 16) != 0, right = (thread & 8) != 0;
  join_halves<k_sums>(sums, 16, upper);
  join_halves<k_sums / 2>(sums, 8, right);
  const int first = (upper ? k_sums / 2 : 0) + (right ? k_sums / 4 : 0);
#pragma unroll
  for (int j = 0; j < k_sums / 4; ++j)
    heads[(thread / 32 * k_sums + first + j) * k_quads + quad] = sums[j];
  __syncthreads();
  write_partials<groups>(p, first_channel, heads);
}

constexpr int k_results = 16, k_slices = 32;  // of a block that joins partial results

// Threads share the partial results of a value out.
template <class T>
__global__ void __launch_bounds__(k_results* k_slices)
    join_kernel(const Compute<T>* partials, int blocks, int weights, int values, T* weight_grad, T* bias_grad) {
  start_early();
  using Acc = Compute<T>;
  __shared__ Acc sums[k_slices][k_results + 1];
  const int column = static_cast<int>(threadIdx.x) % k_results, slice = static_cast<int>(threadIdx.x) / k_results;
  const int value = static_cast<int>(blockIdx.x) * k_results + column;
  Acc sum = 0;
  constexpr int at_once = 12;
  for (int begin = slice; begin < blocks; begin += at_once * k_slices) {
    Acc parts[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int block = begin + i * k_slices;
      const bool inside = block < blocks && value < values;
      parts[i] = partials[inside ? static_cast<std::int64_t>(block) * values + value : 0];
      parts[i] = inside ? parts[i] : Acc(0);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      sum += parts[i];
  }
  sums[slice][column] = sum;
  __syncthreads();
  if (slice > 0 || value >= values)
    return;
#pragma unroll
  for (int other = 1; other < k_slices; ++other)
    sum += sums[other][column];
  if (value < weights)
    weight_grad[value] = T(sum);
  else if (bias_grad != nullptr)
    bias_grad[value - weights] = T(sum);
}

template <class T>
void launch(const Queue& queue, const ShallowWeights<T>& p, unsigned blocks, unsigned channels) {
  const dim3 grid(blocks, channels);
  if (p.patches.depth <= k_terms)
    shallow_weights_kernel<1><<<grid, k_shallow_block, 0, stream_of(queue)>>>(p);
  else if (p.patches.depth <= 2 * k_terms)
    shallow_weights_kernel<2><<<grid, k_shallow_block, 0, stream_of(queue)>>>(p);
  else
    shallow_weights_kernel<4><<<grid, k_shallow_block, 0, stream_of(queue)>>>(p);
  check_early_launch("convolution_backward_weights", stream_of(queue));
}

}  // namespace

void shallow_weights_gpu(
    const Queue& queue, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& d, const void* result) {
  by_floating(g.dtype, [&]<class T>() {
    using Acc = Compute<T>;
    constexpr std::int64_t most_blocks = 384;  // what a large GPU runs at once
    const std::int64_t channels = (g.outputs + k_shallow_channels - 1) / k_shallow_channels;
    ShallowWeights<T> p{
        Patches(g, order),
        static_cast<const T*>(d.x),
        static_cast<const T*>(d.y),
        static_cast<const T*>(result),
        nullptr,
        0,
        static_cast<int>(g.outputs),
        order == MemoryOrder::channels_last,
        g.outputs % k_own == 0 && starts_neighbours<T, k_own>(d.y) && starts_neighbours<T, k_own>(result)};
    p.tiles = (p.patches.pixels + k_shallow_pixels<Acc> - 1) / k_shallow_pixels<Acc>;
    // As many tiles for each block.
    const std::int64_t rounds = (p.tiles * channels + most_blocks - 1) / most_blocks;
    const auto blocks = static_cast<int>((p.tiles + rounds - 1) / rounds);
    const Workspace workspace(
        queue, sizeof(Acc) * static_cast<std::size_t>(p.values()) * static_cast<std::size_t>(blocks));
    p.partials = workspace.as<Acc>();
    launch(queue, p, static_cast<unsigned>(blocks), static_cast<unsigned>(channels));
    join_kernel<<<
        static_cast<unsigned>((p.values() + k_results - 1) / k_results),
        k_results * k_slices,
        0,
        stream_of(queue)>>>(
        static_cast<const Acc*>(p.partials),
        blocks,
        p.values() - p.outputs,
        p.values(),
        static_cast<T*>(d.weight),
        static_cast<T*>(d.bias_grad));
    check_early_launch("convolution_backward_weights", stream_of(queue));
  });
}

}  // namespace sluice::detail
