#pragma once

// Reductions of (outer, channels, inner) to one partial result a channel, in an order that depends on the shape and on
// whether the data is aligned for vectors: blocks reduce chunks, then one warp a channel joins them. A Partial has
// `kind v[n]`, starts with zeros, and merges with merge(const Partial&).
#include <algorithm>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/library/channel_rows.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

inline constexpr int k_channel_block = 256;

/// A Partial that adds up, and what writes it; `sums` may be null.
template <class Acc>
struct ChannelSum {
  static constexpr int n = 1;
  Acc v[1];
  __device__ void merge(const ChannelSum& other) { v[0] += other.v[0]; }
};
template <class T>
struct WriteChannelSum {
  T* sums;
  template <class Acc>
  __device__ void operator()(std::int64_t channel, const ChannelSum<Acc>& sum) const {
    if (sums != nullptr)
      sums[channel] = T(sum.v[0]);
  }
};

/// How a block of k_channel_block threads lies over the data (powers of two), and how the data is cut.
struct ChannelCut {
  std::int64_t outer, channels, inner;
  int lanes_inner, lanes_channel, lanes_outer;
  int chunks_outer, chunks_inner;

  int chunks() const { return chunks_outer * chunks_inner; }
};

inline ChannelCut channel_cut(const ChannelView& view) {
  ChannelCut cut{view.outer, view.channels, view.inner, 1, 1, 1, 1, 1};
  // Lanes along memory: the plane first, neighbouring channels where planes are short.
  while (cut.lanes_inner < k_channel_block && cut.lanes_inner * 2 <= view.inner)
    cut.lanes_inner *= 2;
  while (cut.lanes_inner * cut.lanes_channel < 32 && cut.lanes_channel < view.channels)
    cut.lanes_channel *= 2;
  cut.lanes_outer = k_channel_block / (cut.lanes_inner * cut.lanes_channel);
  // Enough blocks for a large GPU, each with at least 8 elements a thread.
  constexpr std::int64_t blocks_wanted = 1024;
  const std::int64_t groups = (view.channels + cut.lanes_channel - 1) / cut.lanes_channel;
  std::int64_t chunks = std::max<std::int64_t>(1, blocks_wanted / std::max<std::int64_t>(1, groups));
  const std::int64_t per_outer = std::max<std::int64_t>(1, view.outer / cut.lanes_outer);
  const std::int64_t per_inner = std::max<std::int64_t>(1, view.inner / cut.lanes_inner);
  chunks = std::min(chunks, std::max<std::int64_t>(1, per_outer * per_inner / 8));
  cut.chunks_outer = static_cast<int>(std::min(chunks, per_outer));
  cut.chunks_inner = static_cast<int>(std::min(std::max<std::int64_t>(1, chunks / cut.chunks_outer), per_inner));
  return cut;
}

template <class Partial, class Body>
__global__ void channel_partials(ChannelCut cut, Body body, Partial* partials) {
  start_early();
  __shared__ Partial shared[k_channel_block];
  const int thread = static_cast<int>(threadIdx.x);
  const int inner_lane = thread % cut.lanes_inner;
  const int channel_lane = thread / cut.lanes_inner % cut.lanes_channel;
  const int outer_lane = thread / (cut.lanes_inner * cut.lanes_channel);
  const int chunk = static_cast<int>(blockIdx.y);
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * cut.lanes_channel + channel_lane;
  const int chunk_outer = chunk / cut.chunks_inner;
  const int chunk_inner = chunk % cut.chunks_inner;

  Partial mine{};
  if (channel < cut.channels) {
    const std::int64_t outer_step = static_cast<std::int64_t>(cut.lanes_outer) * cut.chunks_outer;
    const std::int64_t inner_step = static_cast<std::int64_t>(cut.lanes_inner) * cut.chunks_inner;
    const std::int64_t first_inner = static_cast<std::int64_t>(chunk_inner) * cut.lanes_inner + inner_lane;
    std::int64_t o = static_cast<std::int64_t>(chunk_outer) * cut.lanes_outer + outer_lane;
    for (; o < cut.outer; o += outer_step) {
      const std::int64_t row = (o * cut.channels + channel) * cut.inner;
      for (std::int64_t i = first_inner; i < cut.inner; i += inner_step) {
        typename Body::template Values<1> loaded[1] = {body.template load<1>(row + i, channel)};
        settle(body, loaded);
        body.add(mine, loaded);
      }
    }
  }
  shared[thread] = mine;
  __syncthreads();
  const int below_outer = cut.lanes_inner * cut.lanes_channel;
  for (int half = cut.lanes_outer / 2; half > 0; half /= 2) {
    if (outer_lane < half)
      shared[thread].merge(shared[thread + half * below_outer]);
    __syncthreads();
  }
  for (int half = cut.lanes_inner / 2; half > 0; half /= 2) {
    if (outer_lane == 0 && inner_lane < half)
      shared[thread].merge(shared[thread + half]);
    __syncthreads();
  }
  if (outer_lane == 0 && inner_lane == 0 && channel < cut.channels)
    partials[channel * gridDim.y + chunk] = shared[thread];
}

/// The partial result of the lane that stands so many higher.
template <class Partial>
__device__ Partial from_lane(const Partial& mine, int distance) {
  Partial other;
#pragma unroll
  for (int k = 0; k < Partial::n; ++k)
    other.v[k] = __shfl_down_sync(0xffffffffu, mine.v[k], distance);
  return other;
}

/// Joins those of all threads of a block; the first thread gets the result.
template <class Partial>
__device__ Partial join_block(Partial mine) {
  constexpr int warps = k_channel_block / k_warp;
  __shared__ Partial of_warps[warps];
  const int thread = static_cast<int>(threadIdx.x);
  for (int distance = k_warp / 2; distance > 0; distance /= 2)
    mine.merge(from_lane(mine, distance));
  if (thread % k_warp == 0)
    of_warps[thread / k_warp] = mine;
  __syncthreads();
  if (thread < k_warp) {
    mine = thread < warps ? of_warps[thread] : Partial{};
    for (int distance = warps / 2; distance > 0; distance /= 2)
      mine.merge(from_lane(mine, distance));
  }
  return mine;
}

/// Planes of a channel, in vectors of V neighbours: its blocks take rounds in turns, `under_way` loads of a thread
/// each. They begin with the array's end, so that where a walk over the array begins it was read last, and may still be
/// in the cache.
template <int V, class Partial, class Index, class Body>
__global__ void __launch_bounds__(k_channel_block)
    channel_plane_partials(Divider<Index> plane, Index skipped, Index vectors, Body body, Partial* partials) {
  start_early();
  using Values = typename Body::template Values<V>;
  constexpr Index under_way = 4, at_once = loads_at_once<Body>(4), round = under_way * k_channel_block;
  const auto channel = static_cast<std::int64_t>(blockIdx.x);
  const std::int64_t first = channel * plane.value();
  const auto load = [&](Index from_end) {
    const Index i = vectors - 1 - from_end;
    return body.template load<V>((first + (i + plane.divide(i) * skipped)) * V, channel);
  };
  Partial mine{};
  Index i = static_cast<Index>(blockIdx.y) * round + static_cast<Index>(threadIdx.x);
  for (; i + round - k_channel_block < vectors; i += static_cast<Index>(gridDim.y) * round) {
#pragma unroll
    for (Index first_of = 0; first_of < under_way; first_of += at_once) {
      Values loaded[at_once];
#pragma unroll
      for (Index k = 0; k < at_once; ++k)
        loaded[k] = load(i + (first_of + k) * k_channel_block);
      settle(body, loaded);
      body.add(mine, loaded);
    }
  }
  Values left[under_way - 1];
#pragma unroll
  for (Index k = 0; k < under_way - 1; ++k) {
    if (i + k * k_channel_block < vectors)
      left[k] = load(i + k * k_channel_block);
  }
#pragma unroll
  for (Index k = 0; k < under_way - 1; ++k) {
    if (i + k * k_channel_block < vectors) {
      Values one[1] = {left[k]};
      settle(body, one);
      body.add(mine, one);
    }
  }
  mine = join_block(mine);
  if (threadIdx.x == 0)
    partials[channel * gridDim.y + blockIdx.y] = mine;
}

/// One warp a channel joins its chunks; finish(channel, partial) takes the result.
template <class Partial, class Finish>
__global__ void channel_finish(std::int64_t channels, int chunks, const Partial* partials, Finish finish) {
  start_early();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t warps = static_cast<std::int64_t>(blockDim.x / 32);
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
  if (channel >= channels)
    return;
  Partial joined{};
  constexpr int under_way = 8;
  for (int chunk = lane; chunk < chunks; chunk += under_way * 32) {
    Partial loaded[under_way];
#pragma unroll
    for (int i = 0; i < under_way; ++i)
      loaded[i] = chunk + i * 32 < chunks ? partials[channel * chunks + chunk + i * 32] : Partial{};
#pragma unroll
    for (int i = 0; i < under_way; ++i)
      joined.merge(loaded[i]);
  }
  for (int distance = k_warp / 2; distance > 0; distance /= 2)
    joined.merge(from_lane(joined, distance));
  if (lane == 0)
    finish(channel, joined);
}

/// Blocks that share a channel of so many vectors, each with a round at least. In its end a block loads nothing: no
/// more of them than a large GPU runs at once, or, where channels are more, so many that those that begin late count
/// little.
inline int plane_chunks(std::int64_t channels, std::int64_t vectors) {
  constexpr std::int64_t at_once = 512, many = 2048, least = 4 * k_channel_block;
  const std::int64_t wanted = channels <= at_once ? at_once / channels : (many + channels - 1) / channels;
  return static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, vectors / least)));
}

template <int V, class Partial, class Body>
void launch_plane_partials(
    const ChannelView& view, int chunks, const char* name, Body body, Partial* partials, cudaStream_t stream) {
  const std::int64_t plane = view.inner / V, vectors = view.outer * plane, skipped = (view.channels - 1) * plane;
  const dim3 grid(static_cast<unsigned>(view.channels), static_cast<unsigned>(chunks));
  const auto launch = [&]<class Index>(Index) {
    channel_plane_partials<V><<<grid, k_channel_block, 0, stream>>>(
        Divider<Index>(plane), static_cast<Index>(skipped), static_cast<Index>(vectors), body, partials);
  };
  const std::int64_t beyond = (std::int64_t{chunks} + 1) * 4 * k_channel_block;
  if (view.size() / V + beyond < std::numeric_limits<std::int32_t>::max())
    launch(std::int32_t{});
  else
    launch(std::int64_t{});
  check_early_launch(name, stream);
}

template <class Partial, class Finish>
void launch_channel_finish(
    std::int64_t channels, int chunks, const char* name, const Partial* partials, Finish finish, cudaStream_t stream) {
  constexpr int warps = 4;
  channel_finish<Partial><<<static_cast<unsigned>((channels + warps - 1) / warps), warps * 32, 0, stream>>>(
      channels, chunks, partials, finish);
  check_early_launch(name, stream);
}

/// Whether channels are neighbours that can be loaded V at once.
template <int V>
bool in_channel_rows(const ChannelView& view, bool aligned) noexcept {
  return view.channels > 0 && view.inner == 1 && aligned && view.channels % V == 0;
}

/// channel_reduce() of a view that is in_channel_rows<V>(), by launch(cut, grid, partials) of blocks that each give a
/// partial result of each of their channels, as channel_row_partials() does.
template <class Partial, int V, class Launch, class Finish>
void channel_reduce_rows(
    const Queue& queue, const ChannelView& view, const char* name, const Launch& launch, Finish finish) {
  const ChannelRowsCut cut = channel_rows_cut(view.outer, view.channels / V);
  const Workspace workspace(queue, sizeof(Partial) * static_cast<std::size_t>(view.channels * cut.chunks));
  auto* const partials = workspace.as<Partial>();
  launch(cut, dim3(cut.groups(), static_cast<unsigned>(cut.chunks)), partials);
  launch_channel_finish(view.channels, cut.chunks, name, partials, finish, stream_of(queue));
}

/// A Body's load<V>(offset, channel) gives `Values<V>`, V neighbours of a channel, and add(partial, values) takes in an
/// array of those; one(values, j) are the j-th of V channels that are neighbours; settle(values), if there is one, is
/// called before that, once several loads are under way, of which k_loads_at_once says how many; finish(channel,
/// partial) writes a channel's result. All run on the device. `V`: as many neighbours as can be loaded at once where
/// planes are whole vectors. No channels: nothing is launched; no elements: finish gets zeros.
template <class Partial, int V, class Body, class Finish>
void channel_reduce(
    const Queue& queue, const ChannelView& view, bool aligned, const char* name, Body body, Finish finish) {
  constexpr std::int64_t shortest_plane = 16;  // below it neighbouring channels share a load
  if (view.channels == 0)
    return;
  if (in_channel_rows<V>(view, aligned)) {
    const auto launch = [&](const ChannelRowsCut& cut, dim3 grid, Partial* partials) {
      channel_row_partials<V><<<grid, k_rows_block, 0, stream_of(queue)>>>(cut, body, partials);
      check_early_launch(name, stream_of(queue));
    };
    return channel_reduce_rows<Partial, V>(queue, view, name, launch, finish);
  }
  const bool planes = view.inner >= shortest_plane;
  const bool vectors = aligned && view.inner % V == 0;
  const ChannelCut cut = channel_cut(view);
  const int chunks = planes ? plane_chunks(view.channels, view.outer * view.inner / (vectors ? V : 1)) : cut.chunks();
  const Workspace workspace(queue, sizeof(Partial) * static_cast<std::size_t>(view.channels * chunks));
  auto* const partials = workspace.as<Partial>();
  const cudaStream_t stream = stream_of(queue);
  if (planes && vectors) {
    launch_plane_partials<V>(view, chunks, name, body, partials, stream);
  } else if (planes) {
    launch_plane_partials<1>(view, chunks, name, body, partials, stream);
  } else {
    const auto groups = static_cast<unsigned>((view.channels + cut.lanes_channel - 1) / cut.lanes_channel);
    channel_partials<<<dim3(groups, static_cast<unsigned>(chunks)), k_channel_block, 0, stream>>>(cut, body, partials);
    check_early_launch(name, stream);
  }
  launch_channel_finish(view.channels, chunks, name, partials, finish, stream);
}

}  // namespace sluice::detail
