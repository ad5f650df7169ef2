#pragma once

// The CUDA side of every reduction that is one `Op`: rows (the terms of an output are neighbours), columns
// (neighbouring outputs read neighbouring inputs, terms are apart) and a general form for any strides. Few outputs with
// many terms are cut into pieces, which a second kernel joins in order: no atomics, the same bits every time.
#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/reduce/rows.h>
#include <sluice/operator/workspace.h>

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

/// Terms [begin, end) of a row of neighbours, V a load, four loads under way.
template <int V, class Op, class T>
__device__ typename Op::Acc sum_row(
    const Op& op, const T* row, std::int64_t begin, std::int64_t end, int lane, int width) {
  using Acc = typename Op::Acc;
  Acc total[V];
#pragma unroll
  for (int j = 0; j < V; ++j)
    total[j] = op.identity();
  const std::int64_t packs = (end - begin) / V;
  const auto* from = reinterpret_cast<const Neighbours<T, V>*>(row + begin);
  std::int64_t i = lane;
  for (; i + 3 * width < packs; i += 4 * width) {
    Neighbours<T, V> loaded[4];
#pragma unroll
    for (int u = 0; u < 4; ++u)
      loaded[u] = from[i + u * width];
#pragma unroll
    for (int u = 0; u < 4; ++u) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        total[j] = with_term(op, total[j], loaded[u].at[j]);
    }
  }
  for (; i < packs; i += width) {
    const Neighbours<T, V> loaded = from[i];
#pragma unroll
    for (int j = 0; j < V; ++j)
      total[j] = with_term(op, total[j], loaded.at[j]);
  }
  for (std::int64_t rest = begin + packs * V + lane; rest < end; rest += width)
    total[0] = with_term(op, total[0], row[rest]);
#pragma unroll
  for (int j = 1; j < V; ++j)
    total[0] = op.join(total[0], total[j]);
  return total[0];
}

template <int V, class Op, class T>
__global__ void __launch_bounds__(k_group_block)
    reduce_rows_kernel(Op op, const T* x, std::int64_t pitch, std::int64_t units, int width, ReduceTarget<Op> to) {
  const Group group(width);
  for (std::int64_t unit = group.index; unit < units; unit += group.count) {
    const std::int64_t output = unit / to.split.pieces, piece = unit % to.split.pieces;
    auto total = sum_row<V>(op, x + output * pitch, to.begin(piece), to.end(piece), group.lane, width);
    total = join_group(total, width, [&op](auto a, auto b) { return op.join(a, b); });
    if (group.lane == 0)
      to.put(op, output, piece, total);
  }
}

/// Any strides, V neighbours a load: `reduced` walks vectors, four loads under way.
template <int V, class Index, class Op, class T>
__device__ typename Op::Acc sum_scattered(
    const Op& op, const T* from, const Geometry<1, Index>& reduced, Index begin, Index end, int lane, int width) {
  using Vector = Neighbours<T, V>;
  typename Op::Acc total[V];
#pragma unroll
  for (int j = 0; j < V; ++j)
    total[j] = op.identity();
  const auto load = [&](Index i) { return *reinterpret_cast<const Vector*>(from + reduced.offsets(i)[0]); };
  const auto take = [&](const Vector& loaded) {
#pragma unroll
    for (int j = 0; j < V; ++j)
      total[j] = with_term(op, total[j], loaded.at[j]);
  };
  Index i = begin + static_cast<Index>(lane);
  const auto step = static_cast<Index>(width);
  for (; i + 3 * step < end; i += 4 * step) {
    const Vector loaded[4] = {load(i), load(i + step), load(i + 2 * step), load(i + 3 * step)};
#pragma unroll
    for (int u = 0; u < 4; ++u)
      take(loaded[u]);
  }
  for (; i < end; i += step)
    take(load(i));
#pragma unroll
  for (int j = 1; j < V; ++j)
    total[0] = op.join(total[0], total[j]);
  return total[0];
}

/// The target counts terms in vectors.
template <int V, class Index, class Op, class T>
__global__ void __launch_bounds__(k_group_block) reduce_general_kernel(
    Op op,
    const T* x,
    Geometry<2, Index> kept,
    Geometry<1, Index> reduced,
    std::int64_t units,
    int width,
    ReduceTarget<Op> to) {
  const Group group(width);
  for (std::int64_t unit = group.index; unit < units; unit += group.count) {
    const std::int64_t output = unit / to.split.pieces, piece = unit % to.split.pieces;
    const T* from = x + kept.offsets(static_cast<Index>(output))[1];
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
};
inline constexpr int k_column_rows = 8;  // threads along the terms, beside a warp along the columns

template <class Op, class T>
__global__ void __launch_bounds__(k_group_block)
    reduce_columns_kernel(Op op, const T* x, ColumnShape shape, std::int64_t units, ReduceTarget<Op> to) {
  using Acc = typename Op::Acc;
  __shared__ Acc totals[k_column_rows][k_warp];
  const std::int64_t tiles = (shape.columns + k_warp - 1) / k_warp;
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const std::int64_t tile = unit % tiles, piece = unit / tiles % to.split.pieces;
    const std::int64_t outer = unit / tiles / to.split.pieces;
    const std::int64_t column = tile * k_warp + threadIdx.x;
    Acc total = op.identity();
    if (column < shape.columns) {
      const T* from = x + outer * shape.outer_step + column;
#pragma unroll 4
      for (std::int64_t i = to.begin(piece) + threadIdx.y; i < to.end(piece); i += k_column_rows)
        total = with_term(op, total, from[i * shape.step]);
    }
    totals[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && column < shape.columns) {
#pragma unroll
      for (int row = 1; row < k_column_rows; ++row)
        total = op.join(total, totals[row][threadIdx.x]);
      to.put(op, outer * shape.columns + column, piece, total);
    }
    __syncthreads();
  }
}

template <class Op>
__global__ void __launch_bounds__(k_group_block) join_pieces_kernel(Op op, std::int64_t outputs, ReduceTarget<Op> to) {
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
  const Group group(1);
  for (std::int64_t output = group.index; output < outputs; output += group.count)
    to.out[output] = op.finish(op.identity());
}

/// Reductions that are rare have the general form alone: it is most of the time that compiling takes.
template <class Op>
inline constexpr bool k_by_layout = true;
template <class T>
inline constexpr bool k_by_layout<ProductOf<T>> = false;

/// One reduction on its way to the GPU.
template <class Op, class T>
class ReduceLaunch {
 public:
  using Acc = typename Op::Acc;

  ReduceLaunch(const KernelCall& call, const Op& op, const Shape& axes)
      : call_(call),
        op_(op),
        plan_(plan_reduce(call.inputs[0], axes)),
        x_(call.inputs[0].as<const T>()),
        stream_(static_cast<cudaStream_t>(call.queue.stream())) {
    to_.out = call.outputs[0].as<typename Op::Out>();
    to_.terms = plan_.terms();
  }

  /// `by_layout` false leaves out the forms for rows and columns, for reductions that are rare.
  template <bool ByLayout>
  void run() {
    if (plan_.outputs() == 0)
      return;
    if (plan_.terms() == 0) {
      fill_identity_kernel<<<blocks_for_groups(plan_.outputs(), 1), k_group_block, 0, stream_>>>(
          op_, plan_.outputs(), to_);
      cuda::cuda_check(cudaGetLastError(), "reduction of nothing");
      return;
    }
    if constexpr (ByLayout) {
      if (is_rows())
        return rows();
      if (is_columns())
        return columns();
      if (in_vectors<k_neighbours<T>>())
        return general<k_neighbours<T>>();
    }
    general<1>();
  }

 private:
  bool is_rows() const { return plan_.kept.ndim == 1 && plan_.reduced.ndim == 1 && plan_.reduced.inner_stride(0) == 1; }
  bool is_columns() const { return plan_.columns() && plan_.kept.ndim <= 2 && plan_.reduced.ndim == 1; }

  // Cuts the terms and calls launch(units) between the allocation of partial results and their joining.
  template <class Launch>
  void in_pieces(std::int64_t units, std::int64_t smallest_chunk, const Launch& launch) {
    to_.split = split_terms(units, to_.terms, 1024, smallest_chunk);
    if (to_.split.pieces > 1) {
      // Whole vectors: every piece starts aligned.
      to_.split.chunk = (to_.split.chunk + 15) / 16 * 16;
      to_.split.pieces = (to_.terms + to_.split.chunk - 1) / to_.split.chunk;
    }
    const std::int64_t partials = to_.split.pieces == 1 ? 0 : to_.split.pieces * plan_.outputs();
    const Workspace scratch(call_.queue, static_cast<std::size_t>(partials) * sizeof(Acc));
    to_.partial = scratch.template as<Acc>();
    launch(units * to_.split.pieces);
    cuda::cuda_check(cudaGetLastError(), "reduction");
    if (to_.split.pieces == 1)
      return;
    join_pieces_kernel<<<blocks_for_groups(plan_.outputs(), k_warp), k_group_block, 0, stream_>>>(
        op_, plan_.outputs(), to_);
    cuda::cuda_check(cudaGetLastError(), "joining of a reduction");
  }

  void rows() {
    constexpr int V = k_neighbours<T>;
    const std::int64_t pitch = plan_.kept.inner_stride(1);
    const bool aligned = reinterpret_cast<std::uintptr_t>(x_) % 16 == 0 && pitch % V == 0;
    const int width = row_width(plan_.outputs(), plan_.terms());
    in_pieces(plan_.outputs(), 16384, [&](std::int64_t units) {
      const unsigned blocks = blocks_for_groups(units, width);
      if (aligned) {
        reduce_rows_kernel<V><<<blocks, k_group_block, 0, stream_>>>(op_, x_, pitch, units, width, to_);
      } else {
        reduce_rows_kernel<1><<<blocks, k_group_block, 0, stream_>>>(op_, x_, pitch, units, width, to_);
      }
    });
  }

  void columns() {
    ColumnShape shape;
    shape.columns = plan_.kept.inner();
    shape.outer = plan_.outputs() / shape.columns;
    shape.outer_step = plan_.kept.ndim == 2 ? plan_.kept.strides[1][0] : 0;
    shape.step = plan_.reduced.inner_stride(0);
    const std::int64_t tiles = (shape.columns + k_warp - 1) / k_warp;
    in_pieces(shape.outer * tiles, 256, [&](std::int64_t units) {
      const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(units, 1 << 20));
      const dim3 block(k_warp, k_column_rows);
      reduce_columns_kernel<<<blocks, block, 0, stream_>>>(op_, x_, shape, units, to_);
    });
  }

  template <int V>
  void general() {
    if constexpr (V > 1) {
      to_.terms /= V;
      plan_.reduced.size /= V;
      plan_.reduced.extents[plan_.reduced.ndim - 1] /= V;
      plan_.reduced.strides[0][plan_.reduced.ndim - 1] = V;
    }
    const int width = group_width(to_.terms);
    in_pieces(plan_.outputs(), 16384 / V, [&](std::int64_t units) {
      const unsigned blocks = blocks_for_groups(units, width);
      if (fits_32_bits(plan_.kept) && fits_32_bits(plan_.reduced)) {
        const Geometry<2, std::int32_t> kept(plan_.kept);
        const Geometry<1, std::int32_t> reduced(plan_.reduced);
        reduce_general_kernel<V><<<blocks, k_group_block, 0, stream_>>>(op_, x_, kept, reduced, units, width, to_);
      } else {
        const Geometry<2, std::int64_t> kept(plan_.kept);
        const Geometry<1, std::int64_t> reduced(plan_.reduced);
        reduce_general_kernel<V><<<blocks, k_group_block, 0, stream_>>>(op_, x_, kept, reduced, units, width, to_);
      }
    });
  }

  // Terms come in runs of neighbours that are whole vectors.
  template <int V>
  bool in_vectors() const {
    const StridedPlan<1>& reduced = plan_.reduced;
    const int inner = reduced.ndim - 1;
    bool fit = reinterpret_cast<std::uintptr_t>(x_) % 16 == 0 && reduced.strides[0][inner] == 1 &&
               reduced.extents[inner] % V == 0;
    for (int axis = 0; axis < inner; ++axis)
      fit = fit && reduced.strides[0][axis] % V == 0;
    for (int axis = 0; axis < plan_.kept.ndim; ++axis)
      fit = fit && plan_.kept.strides[1][axis] % V == 0;
    return fit;
  }

  const KernelCall& call_;
  Op op_;
  ReducePlan plan_;
  const T* x_;
  cudaStream_t stream_;
  ReduceTarget<Op> to_;
};

template <class T>
void reduce_type_on_gpu(Reduction row, const KernelCall& call, const ReduceSettings& settings) {
  with_state<T>(row, settings, [&](const auto& op) {
    using Op = std::remove_cvref_t<decltype(op)>;
    ReduceLaunch<Op, T>(call, op, settings.axes).template run<k_by_layout<Op>>();
  });
}

}  // namespace sluice::detail
