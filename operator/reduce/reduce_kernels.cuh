#pragma once

// Kernels of every reduction that is one `Op`: rows (the terms of an output are neighbours), columns
// (neighbouring outputs read neighbouring inputs, terms are apart) and a general form for any strides. Few outputs with
// many terms are cut into pieces, which a second kernel joins in order: no atomics, the same bits every time. Kernels
// compiled at run time are made of these very functions (fused/detail/reduction_kernels.h): their terms are computed
// where others lie in memory.
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/ndarray/start_early.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/reduce/row_states.h>
#include <sluice/operator/reduce/split.h>

namespace sluice::detail {

/// Where results go: to the outputs, or with several pieces an output to `partial`, pieces of one output together.
template <class Op>
struct ReduceTarget {
  typename Op::Out* out = nullptr;
  typename Op::Acc* partial = nullptr;
  std::int64_t terms = 0;
  Split split;

  __device__ std::int64_t begin(std::int64_t piece) const { return piece * split.chunk; }
  __device__ std::int64_t end(std::int64_t piece) const { return min((piece + 1) * split.chunk, terms); }
  __device__ void put(const Op& op, std::int64_t output, std::int64_t piece, typename Op::Acc total) const {
    if (split.pieces == 1) {
      out[output] = op.finish(total);
    } else {
      partial[output * split.pieces + piece] = total;
    }
  }
};

/// Terms that lie in memory. What is fetched of `V` neighbours is on its way until made() is asked for them.
template <class T>
struct TermsAt {
  static constexpr int k_under_way = 4;  // vectors that a thread fetches before it takes the first
  const T* x;

  __device__ TermsAt behind(std::int64_t elements) const { return {x + elements}; }
  template <int V, class Index>
  __device__ Neighbours<T, V> fetch(Index place) const {
    return *reinterpret_cast<const Neighbours<T, V>*>(x + place);
  }
  template <int V>
  __device__ Neighbours<T, V> made(const Neighbours<T, V>& fetched) const {
    return fetched;
  }
};

/// `acc` with one term more, number `place` of its output.
template <class Op, class T>
__device__ typename Op::Acc with_placed_term(const Op& op, typename Op::Acc acc, T x, std::int64_t place) {
  if constexpr (Placed<Op>) {
    const T terms[1] = {x};
    op.take(acc, terms, place);
    return acc;
  } else {
    return with_term(op, acc, x);
  }
}

/// What a thread adds up of vectors of V terms: each of their lanes alone, or all of them where places count.
template <int V, class Op>
struct Totals {
  using Acc = typename Op::Acc;
  static constexpr int k_lanes = Placed<Op> ? 1 : V;
  Acc at[k_lanes];

  __device__ explicit Totals(const Op& op) {
#pragma unroll
    for (Acc& lane : at)
      lane = op.identity();
  }
  /// The first of the terms is number `place` of its output.
  template <class T>
  __device__ void add(const Op& op, const T (&terms)[V], std::int64_t place) {
    if constexpr (Placed<Op>) {
      op.take(at[0], terms, place);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j)
        at[j] = with_term(op, at[j], terms[j]);
    }
  }
  __device__ Acc joined(const Op& op) {
#pragma unroll
    for (int j = 1; j < k_lanes; ++j)
      at[0] = op.join(at[0], at[j]);
    return at[0];
  }
};

/// Terms [begin, end) of a row of neighbours, V a load, several loads under way.
template <int V, class Op, class Terms>
__device__ typename Op::Acc sum_row(
    const Op& op, const Terms& row, std::int64_t begin, std::int64_t end, int lane, int width) {
  constexpr int U = Terms::k_under_way;
  Totals<V, Op> total(op);
  const std::int64_t packs = (end - begin) / V;
  const Terms from = row.behind(begin);
  using Fetched = decltype(from.template fetch<V>(packs));
  std::int64_t i = lane;
  for (; i + (U - 1) * width < packs; i += U * width) {
    Fetched loaded[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      loaded[u] = from.template fetch<V>((i + u * width) * V);
#pragma unroll
    for (int u = 0; u < U; ++u)
      total.add(op, from.template made<V>(loaded[u]).at, begin + (i + u * width) * V);
  }
  for (; i < packs; i += width) {
    const Fetched loaded = from.template fetch<V>(i * V);
    total.add(op, from.template made<V>(loaded).at, begin + i * V);
  }
  for (std::int64_t rest = begin + packs * V + lane; rest < end; rest += width)
    total.at[0] = with_placed_term(op, total.at[0], row.template made<1>(row.template fetch<1>(rest)).at[0], rest);
  return total.joined(op);
}

template <int V, class Op, class Terms>
__device__ void reduce_rows(
    const Op& op, const Terms& x, std::int64_t pitch, std::int64_t units, int width, const ReduceTarget<Op>& to) {
  const Group group(width);
  for (std::int64_t unit = group.index; unit < units; unit += group.count) {
    const std::int64_t output = unit / to.split.pieces, piece = unit % to.split.pieces;
    auto total = sum_row<V>(op, x.behind(output * pitch), to.begin(piece), to.end(piece), group.lane, width);
    total = join_group(total, width, [&op](auto a, auto b) { return op.join(a, b); });
    if (group.lane == 0)
      to.put(op, output, piece, total);
  }
}

/// Any strides, V neighbours a load: `reduced` walks vectors, several loads under way.
template <int V, class Index, class Op, class Terms>
__device__ typename Op::Acc sum_scattered(
    const Op& op, const Terms& from, const Geometry<1, Index>& reduced, Index begin, Index end, int lane, int width) {
  constexpr int U = Terms::k_under_way;
  using Fetched = decltype(from.template fetch<V>(begin));
  Totals<V, Op> total(op);
  const auto load = [&](Index i) { return from.template fetch<V>(reduced.offsets(i)[0]); };
  const auto take = [&](const Fetched& loaded, Index i) {
    total.add(op, from.template made<V>(loaded).at, static_cast<std::int64_t>(i) * V);
  };
  Index i = begin + static_cast<Index>(lane);
  const auto step = static_cast<Index>(width);
  for (; i + (U - 1) * step < end; i += U * step) {
    Fetched loaded[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      loaded[u] = load(i + static_cast<Index>(u) * step);
#pragma unroll
    for (int u = 0; u < U; ++u)
      take(loaded[u], i + static_cast<Index>(u) * step);
  }
  for (; i < end; i += step)
    take(load(i), i);
  return total.joined(op);
}

/// The target counts terms in vectors.
template <int V, class Index, class Op, class Terms>
__device__ void reduce_general(
    const Op& op,
    const Terms& x,
    const Geometry<2, Index>& kept,
    const Geometry<1, Index>& reduced,
    std::int64_t units,
    int width,
    const ReduceTarget<Op>& to) {
  const Group group(width);
  for (std::int64_t unit = group.index; unit < units; unit += group.count) {
    const std::int64_t output = unit / to.split.pieces, piece = unit % to.split.pieces;
    const Terms from = x.behind(kept.offsets(static_cast<Index>(output))[1]);
    const auto begin = static_cast<Index>(to.begin(piece)), end = static_cast<Index>(to.end(piece));
    auto total = sum_scattered<V>(op, from, reduced, begin, end, group.lane, width);
    total = join_group(total, width, [&op](auto a, auto b) { return op.join(a, b); });
    if (group.lane == 0)
      to.put(op, output, piece, total);
  }
}

/// `outer` groups of `columns` neighbouring outputs; terms are `step` apart.
struct ColumnShape {
  std::int64_t columns = 1;
  std::int64_t outer = 1;
  std::int64_t outer_step = 0;
  std::int64_t step = 0;

  /// Tiles along the columns, of a warp with V columns a thread.
  SLUICE_HD std::int64_t tiles(int V) const noexcept { return (columns + k_warp * V - 1) / (k_warp * V); }
};
inline constexpr int k_column_rows = 8;  // threads along the terms, beside a warp along the columns

/// Columns that a thread takes: as many as a word of 4 bytes holds, so that a warp reads whole lines.
template <class T>
inline constexpr int k_columns = sizeof(T) == 2 ? 2 : 1;

/// The best of V columns with U terms more each, a vector for rows of a block apart; the first is number `place`.
template <int V, int U, class Op, class T>
__device__ void take_of_columns(
    const Op& op, typename Op::Acc (&total)[V], const Neighbours<T, V> (&terms)[U], std::int64_t place) {
#pragma unroll
  for (int j = 0; j < V; ++j) {
    T of_column[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      of_column[u] = terms[u].at[j];
    op.take(total[j], of_column, place, k_column_rows);
  }
}

/// V neighbouring columns a thread, several terms of them under way.
template <int V, class Op, class Terms>
__device__ void sum_columns(
    const Op& op,
    const Terms& from,
    std::int64_t step,
    std::int64_t begin,
    std::int64_t end,
    typename Op::Acc (&total)[V]) {
  constexpr int U = Terms::k_under_way;
  using Fetched = decltype(from.template fetch<V>(begin));
  const auto load = [&](std::int64_t i) { return from.template fetch<V>(i * step); };
  const auto take = [&](const Fetched& loaded, std::int64_t i) {
    const auto terms = from.template made<V>(loaded);
#pragma unroll
    for (int j = 0; j < V; ++j)
      total[j] = with_placed_term(op, total[j], terms.at[j], i);
  };
  std::int64_t i = begin;
  for (; i + (U - 1) * k_column_rows < end; i += U * k_column_rows) {
    Fetched loaded[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      loaded[u] = load(i + u * k_column_rows);
    if constexpr (Placed<Op>) {
      take_of_columns(op, total, loaded, i);
    } else {
#pragma unroll
      for (int u = 0; u < U; ++u)
        take(loaded[u], i + u * k_column_rows);
    }
  }
  for (; i < end; i += k_column_rows)
    take(load(i), i);
}

template <int V, class Op, class Terms>
__device__ void reduce_columns(
    const Op& op, const Terms& x, const ColumnShape& shape, std::int64_t units, const ReduceTarget<Op>& to) {
  using Acc = typename Op::Acc;
  __shared__ Acc totals[k_column_rows][V][k_warp];
  const std::int64_t tiles = shape.tiles(V);
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const std::int64_t tile = unit % tiles, piece = unit / tiles % to.split.pieces;
    const std::int64_t outer = unit / tiles / to.split.pieces;
    const std::int64_t column = (tile * k_warp + threadIdx.x) * V;
    Acc total[V];
#pragma unroll
    for (Acc& column_total : total)
      column_total = op.identity();
    if (column < shape.columns) {
      const Terms from = x.behind(outer * shape.outer_step + column);
      sum_columns(op, from, shape.step, to.begin(piece) + threadIdx.y, to.end(piece), total);
    }
#pragma unroll
    for (int j = 0; j < V; ++j)
      totals[threadIdx.y][j][threadIdx.x] = total[j];
    __syncthreads();
    if (threadIdx.y == 0 && column < shape.columns) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        Acc sum = total[j];
#pragma unroll
        for (int row = 1; row < k_column_rows; ++row)
          sum = op.join(sum, totals[row][j][threadIdx.x]);
        to.put(op, outer * shape.columns + column + j, piece, sum);
      }
    }
    __syncthreads();
  }
}

template <int V, class Op, class T>
__global__ void __launch_bounds__(k_group_block)
    reduce_rows_kernel(Op op, TermsAt<T> x, std::int64_t pitch, std::int64_t units, int width, ReduceTarget<Op> to) {
  start_early();
  reduce_rows<V>(op, x, pitch, units, width, to);
}

template <int V, class Index, class Op, class T>
__global__ void __launch_bounds__(k_group_block) reduce_general_kernel(
    Op op,
    TermsAt<T> x,
    Geometry<2, Index> kept,
    Geometry<1, Index> reduced,
    std::int64_t units,
    int width,
    ReduceTarget<Op> to) {
  start_early();
  reduce_general<V>(op, x, kept, reduced, units, width, to);
}

template <int V, class Op, class T>
__global__ void __launch_bounds__(k_group_block)
    reduce_columns_kernel(Op op, TermsAt<T> x, ColumnShape shape, std::int64_t units, ReduceTarget<Op> to) {
  start_early();
  reduce_columns<V>(op, x, shape, units, to);
}

template <class Op>
__global__ void __launch_bounds__(k_group_block) join_pieces_kernel(Op op, std::int64_t outputs, ReduceTarget<Op> to) {
  start_early();
  const Group group(k_warp);
  for (std::int64_t output = group.index; output < outputs; output += group.count) {
    auto total = op.identity();
    for (std::int64_t piece = group.lane; piece < to.split.pieces; piece += k_warp)
      total = op.join(total, to.partial[output * to.split.pieces + piece]);
    total = join_group(total, k_warp, [&op](auto a, auto b) { return op.join(a, b); });
    if (group.lane == 0)
      to.out[output] = op.finish(total);
  }
}

template <class Op>
__global__ void __launch_bounds__(k_group_block)
    fill_identity_kernel(Op op, std::int64_t outputs, ReduceTarget<Op> to) {
  start_early();
  const Group group(1);
  for (std::int64_t output = group.index; output < outputs; output += group.count)
    to.out[output] = op.finish(op.identity());
}

}  // namespace sluice::detail
