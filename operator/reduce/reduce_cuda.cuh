#pragma once

// How a reduction is enqueued: which of the kernels takes it, and in how many pieces.
#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/reduce/reduce_kernels.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

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
      check_early_launch("reduction of nothing", stream_);
      return;
    }
    if constexpr (ByLayout) {
      if (is_rows())
        return rows();
      if (is_columns())
        return columns();
    }
    if constexpr (ByLayout && !Placed<Op>) {  // places have one axis, so no planes to read in vectors
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
    check_early_launch("reduction", stream_);
    if (to_.split.pieces == 1)
      return;
    join_pieces_kernel<<<blocks_for_groups(plan_.outputs(), k_warp), k_group_block, 0, stream_>>>(
        op_, plan_.outputs(), to_);
    check_early_launch("joining of a reduction", stream_);
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
    // The cut is the same however many columns a thread takes, and with it the bits of the result.
    in_pieces(shape.outer * shape.tiles(1), 256, [&](std::int64_t) {
      constexpr int V = k_columns<T>;
      const bool in_vectors =
          starts_neighbours<T, V>(x_) && shape.columns % V == 0 && shape.step % V == 0 && shape.outer_step % V == 0;
      in_vectors ? launch_columns<V>(shape) : launch_columns<1>(shape);
    });
  }
  template <int V>
  void launch_columns(const ColumnShape& shape) {
    const std::int64_t units = shape.outer * shape.tiles(V) * to_.split.pieces;
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(units, 1 << 20));
    const dim3 block(k_warp, k_column_rows);
    reduce_columns_kernel<V><<<blocks, block, 0, stream_>>>(op_, x_, shape, units, to_);
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
