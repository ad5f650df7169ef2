#pragma once

// Scans along an axis on a GPU: a warp or a block goes along a row of neighbours, tile by tile; a thread down a column.
// Few long ones are cut into pieces, by shape alone: their totals first, then the same again from what stands before
// each piece. No thread looks at what another one happens to have finished, so that the bits are always the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/scan/kernels.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

/// Rows or columns, as `outer` x `n` x `inner`, each in so many pieces of `chunk` entries.
struct ScanShape {
  std::int64_t outer, n, inner;
  std::int64_t pieces, chunk;
  bool reverse;
  int width = 1;  // threads that go along one of them

  __host__ __device__ std::int64_t units() const { return outer * inner * pieces; }
  __device__ std::int64_t entry(std::int64_t i) const { return reverse ? n - 1 - i : i; }
};

/// Words of `value` from the thread `lanes` below in the warp; its own in the lowest ones.
template <class A>
__device__ A shuffle_up(A value, int lanes) {
  static_assert(sizeof(A) % sizeof(unsigned) == 0 && std::is_trivially_copyable_v<A>);
  unsigned words[sizeof(A) / sizeof(unsigned)];
  memcpy(words, &value, sizeof(A));
#pragma unroll
  for (unsigned& word : words)
    word = __shfl_up_sync(0xffffffffu, word, static_cast<unsigned>(lanes));
  memcpy(&value, words, sizeof(A));
  return value;
}

/// What the threads of a group below this one have, joined; `all` becomes what all of them have. As join_group().
template <class Op>
__device__ typename Op::Acc scan_group(const Op& op, typename Op::Acc value, int width, typename Op::Acc& all) {
  using Acc = typename Op::Acc;
  const int lane = static_cast<int>(threadIdx.x) % k_warp, warp = static_cast<int>(threadIdx.x) / k_warp;
#pragma unroll
  for (int lanes = 1; lanes < k_warp; lanes *= 2) {
    const Acc below = shuffle_up(value, lanes);
    value = lane >= lanes ? op.join(below, value) : value;
  }
  Acc before = shuffle_up(value, 1);
  before = lane == 0 ? op.identity() : before;
  __shared__ Acc totals[k_group_block / k_warp];
  if (lane == k_warp - 1)
    totals[warp] = value;
  if (width == k_warp) {
    __syncwarp();
    all = totals[warp];
    __syncwarp();
    return before;
  }
  __syncthreads();
  Acc sum = op.identity();
#pragma unroll
  for (int w = 0; w < k_group_block / k_warp; ++w) {
    before = w == warp ? op.join(sum, before) : before;
    sum = op.join(sum, totals[w]);
  }
  all = sum;
  __syncthreads();  // the next call writes again
  return before;
}

/// Rows of neighbours, V a thread and load. `totals` has what stands before each piece; or gets, without results, what
/// each comes to, where `sums`.
template <int V, class Op>
__global__ void __launch_bounds__(k_group_block)
    scan_rows_kernel(Op op, ScanShape shape, typename Op::Acc* totals, bool sums) {
  using Acc = typename Op::Acc;
  const Group group(shape.width);
  const std::int64_t step = static_cast<std::int64_t>(shape.width) * V;
  for (std::int64_t unit = group.index; unit < shape.units(); unit += group.count) {
    const std::int64_t row = unit / shape.pieces, first = (unit - row * shape.pieces) * shape.chunk;
    const std::int64_t last = min(first + shape.chunk, shape.n), base = row * shape.n;
    Acc carry = totals == nullptr || sums ? op.identity() : totals[unit];
    for (std::int64_t begin = first; begin < last; begin += step) {
      const std::int64_t i = begin + group.lane * V;
      const bool there = i < last;
      // Of the lowest in memory of these V.
      const std::int64_t entry = shape.reverse ? shape.n - i - V : i;
      Acc values[V];
#pragma unroll
      for (int j = 0; j < V; ++j)
        values[j] = op.identity();
      if (there)
        lift_neighbours<V>(op, base + entry, entry, shape.reverse, values);
#pragma unroll
      for (int j = 1; j < V; ++j)
        values[j] = op.join(values[j - 1], values[j]);
      Acc all;
      const Acc before = op.join(carry, scan_group(op, values[V - 1], shape.width, all));
      carry = op.join(carry, all);
      if (there && !sums) {
#pragma unroll
        for (int j = 0; j < V; ++j)
          values[j] = op.join(before, values[j]);
        lower_neighbours<V>(op, base + entry, entry, shape.reverse, values);
      }
    }
    if (sums && group.lane == 0)
      totals[unit] = carry;
  }
}

/// V neighbours, the values in the order of the scan.
template <int V, class Op, class Acc>
__device__ void lift_neighbours(const Op& op, std::int64_t offset, std::int64_t entry, bool reverse, Acc (&values)[V]) {
  if constexpr (V == 1) {
    values[0] = op.lift(offset, entry);
  } else {
    Acc loaded[V];
    op.lift_all(offset, entry, loaded);
#pragma unroll
    for (int j = 0; j < V; ++j)
      values[j] = reverse ? loaded[V - 1 - j] : loaded[j];
  }
}
template <int V, class Op, class Acc>
__device__ void lower_neighbours(
    const Op& op, std::int64_t offset, std::int64_t entry, bool reverse, const Acc (&values)[V]) {
  if constexpr (V == 1) {
    op.lower(offset, entry, values[0]);
  } else {
    Acc turned[V];
#pragma unroll
    for (int j = 0; j < V; ++j)
      turned[j] = reverse ? values[V - 1 - j] : values[j];
    op.lower_all(offset, turned);
  }
}

/// A thread a column and piece; the next thread has the next column. Short rows too, each a column beside nothing.
template <class Op>
__global__ void __launch_bounds__(k_group_block)
    scan_columns_kernel(Op op, ScanShape shape, typename Op::Acc* totals, bool sums) {
  using Acc = typename Op::Acc;
  constexpr int k_under_way = sizeof(Acc) <= 8 ? 8 : 4;
  const Group group(1);
  for (std::int64_t unit = group.index; unit < shape.units(); unit += group.count) {
    const std::int64_t rest = unit / shape.inner, outer = rest / shape.pieces;
    const std::int64_t base = outer * shape.n * shape.inner + (unit - rest * shape.inner);
    const std::int64_t first = (rest - outer * shape.pieces) * shape.chunk;
    const std::int64_t last = min(first + shape.chunk, shape.n);
    Acc carry = totals == nullptr || sums ? op.identity() : totals[unit];
    for (std::int64_t begin = first; begin < last; begin += k_under_way) {
      Acc values[k_under_way];
#pragma unroll
      for (int u = 0; u < k_under_way; ++u) {
        if (begin + u < last)
          values[u] = op.lift(base + shape.entry(begin + u) * shape.inner, shape.entry(begin + u));
      }
#pragma unroll
      for (int u = 0; u < k_under_way; ++u) {
        if (begin + u < last) {
          carry = op.join(carry, values[u]);
          if (!sums)
            op.lower(base + shape.entry(begin + u) * shape.inner, shape.entry(begin + u), carry);
        }
      }
    }
    if (sums)
      totals[unit] = carry;
  }
}

/// Totals of pieces, `beside` of them next to each other, become what stands before each.
template <class Op>
__global__ void __launch_bounds__(k_group_block)
    scan_totals_kernel(Op op, std::int64_t rows, std::int64_t pieces, std::int64_t beside, typename Op::Acc* totals) {
  const Group group(1);
  for (std::int64_t row = group.index; row < rows; row += group.count) {
    auto* const first = totals + row / beside * pieces * beside + row % beside;
    auto before = op.identity();
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const auto total = first[piece * beside];
      first[piece * beside] = before;
      before = op.join(before, total);
    }
  }
}

/// How the rows of a layout are gone along, V elements a load.
inline ScanShape scan_shape(const AxisLayout& at, bool reverse, int V) {
  constexpr std::int64_t k_threads = 1 << 17, k_short = 16;
  ScanShape shape{at.outer, at.n, at.inner, 1, at.n, reverse};
  const bool columns = at.inner > 1 || at.n <= k_short;
  shape.width = columns ? 1 : at.n <= k_warp * 4 * V ? k_warp : k_group_block;
  const std::int64_t units = at.outer * at.inner, enough = std::max<std::int64_t>(1, k_threads / shape.width);
  const Split split = split_terms(units, at.n, enough, columns ? 64 : 8 * k_group_block * V);
  // Pieces are whole vectors.
  shape.chunk = (split.chunk + V - 1) / V * V;
  shape.pieces = (at.n + shape.chunk - 1) / shape.chunk;
  return shape;
}

template <int V, class Op>
void launch_scan(const char* name, const Op& op, const ScanShape& shape, const Queue& queue) {
  const cudaStream_t stream = stream_of(queue);
  using Acc = typename Op::Acc;
  const bool cut = shape.pieces > 1;
  const Workspace scratch(queue, cut ? static_cast<std::size_t>(shape.units()) * sizeof(Acc) : 0);
  auto* const totals = scratch.as<Acc>();
  const unsigned blocks = blocks_for_groups(shape.units(), shape.width);
  const auto walk = [&](bool sums) {
    if (shape.width == 1) {
      scan_columns_kernel<<<blocks, k_group_block, 0, stream>>>(op, shape, totals, sums);
    } else {
      scan_rows_kernel<V><<<blocks, k_group_block, 0, stream>>>(op, shape, totals, sums);
    }
    check_launch(name);
  };
  if (cut) {
    walk(true);
    const std::int64_t rows = shape.outer * shape.inner;
    scan_totals_kernel<<<blocks_for_groups(rows, 1), k_group_block, 0, stream>>>(
        op, rows, shape.pieces, shape.inner, totals);
    check_launch(name);
  }
  walk(false);
}

/// Along the axis of the call's first input, element by element.
template <class Op>
void scan_on_gpu(const KernelCall& call, const Op& op) {
  const auto& a = call.attributes.as<ScanAttributes>();
  if (call.inputs[0].size == 0)
    return;
  const AxisLayout at = axis_layout(call.inputs[0].shape, axis_of<ScanAttributes>(call.attributes));
  launch_scan<1>(call.op.name, op, scan_shape(at, a.reverse, 1), call.queue);
}

/// The same in vectors where rows are made of them. All arrays are of elements as wide as T.
template <class T, class Op>
void scan_vectors_on_gpu(const KernelCall& call, const Op& op) {
  const auto& a = call.attributes.as<ScanAttributes>();
  if (call.inputs[0].size == 0)
    return;
  constexpr int V = k_neighbours<T>;
  const AxisLayout at = axis_layout(call.inputs[0].shape, axis_of<ScanAttributes>(call.attributes));
  const auto starts = [](const TensorView& view) { return starts_neighbours<T, V>(view.data); };
  const bool whole = at.inner == 1 && at.n % V == 0 && std::all_of(call.inputs.begin(), call.inputs.end(), starts) &&
                     std::all_of(call.outputs.begin(), call.outputs.end(), starts);
  if (!whole)
    return scan_on_gpu(call, op);
  launch_scan<V>(call.op.name, op, scan_shape(at, a.reverse, V), call.queue);
}

}  // namespace sluice::detail
