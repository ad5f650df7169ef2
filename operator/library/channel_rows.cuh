#pragma once

// Reductions of (rows, channels) to one partial result a channel, of neighbouring channels at once: see
// channel_reduce.cuh.
#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/group.cuh>

namespace sluice::detail {

inline constexpr int k_rows_block = 256, k_rows_under_way = 4;

/// How a block lies over the rows and how many share them: `lanes` threads side by side along vectors of channels.
/// `chunk_rows` are those of a block that takes neighbours.
struct ChannelRowsCut {
  std::int64_t vectors, rows, chunk_rows;
  int lanes, chunks;

  unsigned groups() const { return static_cast<unsigned>((vectors + lanes - 1) / lanes); }
};

/// A warp loads whole lines, and as few threads as can be have no channel.
inline int channel_lanes(std::int64_t vectors) {
  int lanes = 32;
  while (lanes > 8 && vectors % lanes != 0)
    lanes /= 2;
  while (lanes > 1 && lanes / 2 >= vectors)
    lanes /= 2;
  return lanes;
}

inline ChannelRowsCut channel_rows_cut(std::int64_t rows, std::int64_t vectors) {
  ChannelRowsCut cut{vectors, rows, 0, channel_lanes(vectors), 1};
  // What a large GPU runs at once, each block with a round of loads at least.
  constexpr std::int64_t blocks_wanted = 512;
  const std::int64_t round = k_rows_block / cut.lanes * k_rows_under_way;
  const std::int64_t most = std::max<std::int64_t>(1, blocks_wanted / cut.groups());
  const std::int64_t rounds = std::max<std::int64_t>(1, (rows + round - 1) / round);
  cut.chunks = static_cast<int>(std::min(rounds, most));
  return cut;
}

/// Of a Body that makes something of what it loaded: once all loads that are under way together have been asked for.
template <class Body, class Values, int U>
__device__ void settle(const Body& body, Values (&loaded)[U]) {
  if constexpr (requires { body.settle(loaded[0]); }) {
#pragma unroll
    for (int k = 0; k < U; ++k)
      body.settle(loaded[k]);
  }
}

/// How many of the loads under way a Body has registers for at once; the order in which it adds is the same.
template <class Body>
constexpr int loads_at_once(int under_way) {
  if constexpr (requires { Body::k_loads_at_once; })
    return Body::k_loads_at_once;
  return under_way;
}

/// How many blocks a Body wants a multiprocessor to hold.  0: that is left to the compiler.
template <class Body>
constexpr int blocks_at_once() {
  if constexpr (requires { Body::k_blocks_at_once; })
    return Body::k_blocks_at_once;
  return 0;
}

/// What a thread gathers of V channels that are neighbours: a Partial each.
template <int V, class Partial, class Body>
struct GatheredPartials {
  Partial each[V];

  template <class Values, int U>
  __device__ void add(const Body& body, const Values (&loaded)[U]) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      typename Body::template Values<1> column[U];
#pragma unroll
      for (int i = 0; i < U; ++i)
        column[i] = body.one(loaded[i], j);
      body.add(each[j], column);
    }
  }
  __device__ Partial of(int j) const {
    return each[j];
  }
};
/// Or what a Body has instead, a Gathered<V> with those two functions; it begins with zeros.
template <int V, class Partial, class Body>
struct GatheredOf {
  using Type = GatheredPartials<V, Partial, Body>;
};
template <int V, class Partial, class Body>
requires requires {
  typename Body::template Gathered<V>;
}
struct GatheredOf<V, Partial, Body> {
  using Type = typename Body::template Gathered<V>;
};

/// Of V channels the next U rows of a thread, `beside` from each other.
template <int V, int U, class Body, class Load, class Gathered>
__device__ void add_rows(const Body& body, const Load& load, std::int64_t row, int beside, Gathered& mine) {
  typename Body::template Values<V> loaded[U];
#pragma unroll
  for (int i = 0; i < U; ++i)
    loaded[i] = load(row + i * beside);
  settle(body, loaded);
  mine.add(body, loaded);
}

/// Joins what the threads of a block have of their channels, `of(j)` of the j-th one, and writes it.
template <int V, class Partial, class Of>
__device__ void join_row_partials(const ChannelRowsCut& cut, Partial* partials, const Of& of) {
  __shared__ Partial shared[V][k_rows_block];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % cut.lanes, below = thread / cut.lanes;
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * cut.lanes + lane;
#pragma unroll
  for (int j = 0; j < V; ++j)
    shared[j][thread] = of(j);
  __syncthreads();
  for (int half = k_rows_block / cut.lanes / 2; half > 0; half /= 2) {
    if (below < half) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        shared[j][thread].merge(shared[j][thread + half * cut.lanes]);
    }
    __syncthreads();
  }
  if (below != 0 || vector >= cut.vectors)
    return;
#pragma unroll
  for (int j = 0; j < V; ++j)
    partials[(vector * V + j) * gridDim.y + blockIdx.y] = shared[j][thread];
}

/// Blocks take rounds of rows in turns. They begin with the array's end, which is what was written last, so that where
/// a walk over the array begins it was read last: both may still be in the cache.
template <int V, class Partial, class Body>
__global__ void __launch_bounds__(k_rows_block, blocks_at_once<Body>())
    channel_row_partials(ChannelRowsCut cut, Body body, Partial* partials) {
  start_early();
  constexpr int at_once = loads_at_once<Body>(k_rows_under_way);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % cut.lanes, below = thread / cut.lanes;
  const int beside = k_rows_block / cut.lanes;  // rows that the block looks at together
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * cut.lanes + lane;
  const int round = k_rows_under_way * beside;
  const bool real = vector < cut.vectors;

  typename GatheredOf<V, Partial, Body>::Type mine{};
  const auto load = [&](std::int64_t from_end) {
    const std::int64_t row = cut.rows - 1 - from_end;
    return body.template load<V>((row * cut.vectors + vector) * V, vector * V);
  };
  std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * round + below;
  for (; real && row + round - beside < cut.rows; row += static_cast<std::int64_t>(gridDim.y) * round) {
#pragma unroll
    for (int first = 0; first < k_rows_under_way; first += at_once)
      add_rows<V, at_once>(body, load, row + first * beside, beside, mine);
  }
#pragma unroll
  for (int i = 0; i < k_rows_under_way - 1; ++i) {
    if (real && row + i * beside < cut.rows)
      add_rows<V, 1>(body, load, row + i * beside, beside, mine);
  }
  join_row_partials<V>(cut, partials, [&](int j) { return mine.of(j); });
}

}  // namespace sluice::detail
