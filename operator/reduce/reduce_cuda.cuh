#pragma once

// How a reduction is enqueued: which of the kernels takes it, and in how many pieces.
#include <cstdint>
#include <utility>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/reduce/form.h>
#include <sluice/operator/reduce/made_on_gpu.h>
#include <sluice/operator/reduce/reduce_kernels.cuh>
#include <sluice/operator/reduce/rows.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

inline ColumnShape columns_of(const ReducePlan& plan) {
  ColumnShape shape;
  shape.columns = plan.kept.inner();
  shape.outer = plan.outputs() / shape.columns;
  shape.outer_step = plan.kept.ndim == 2 ? plan.kept.strides[1][0] : 0;
  shape.step = plan.reduced.inner_stride(0);
  return shape;
}

/// One reduction on its way to the GPU: of the input's elements, or of what `made` makes in their place.
template <class Op, class T>
class ReduceLaunch {
 public:
  using Acc = typename Op::Acc;

  ReduceLaunch(const KernelCall& call, const Op& op, const Shape& axes, const MadeOnGpu* made = nullptr)
      : call_(call),
        op_(op),
        made_(made),
        plan_(plan_reduce(call.inputs[0], axes)),
        x_{call.inputs[0].as<const T>()},
        stream_(stream_of(call.queue)) {
    to_.out = call.outputs[0].as<typename Op::Out>();
    to_.terms = plan_.terms();
  }

  /// `by_layout` false leaves out the forms for rows and columns, for reductions that are rare.
  template <bool ByLayout>
  void run() {
    if (plan_.outputs() == 0)
      return;
    form_ = form_of(plan_, x_.x, sizeof(T), ByLayout, Placed<Op>);
    if (form_.walk == ReduceWalk::nothing) {
      fill_identity_kernel<<<blocks_for_groups(plan_.outputs(), 1), k_group_block, 0, stream_>>>(
          op_, plan_.outputs(), to_);
      check_early_launch("reduction of nothing", stream_);
      return;
    }
    if constexpr (ByLayout) {
      if (form_.walk == ReduceWalk::rows)
        return rows();
      if (form_.walk == ReduceWalk::columns)
        return columns();
    }
    if constexpr (ByLayout && !Placed<Op>) {
      if (form_.vector > 1)
        return general<k_neighbours<T>>();
    }
    general<1>();
  }

 private:
  // Calls launch() between the allocation of partial results and their joining.
  template <class Launch>
  void in_pieces(const Launch& launch) {
    to_.split = form_.split;
    const std::int64_t partials = to_.split.pieces == 1 ? 0 : to_.split.pieces * plan_.outputs();
    const Workspace scratch(call_.queue, static_cast<std::size_t>(partials) * sizeof(Acc));
    to_.partial = scratch.template as<Acc>();
    launch();
    check_early_launch("reduction", stream_);
    if (to_.split.pieces == 1)
      return;
    join_pieces_kernel<<<blocks_for_groups(plan_.outputs(), k_warp), k_group_block, 0, stream_>>>(
        op_, plan_.outputs(), to_);
    check_early_launch("joining of a reduction", stream_);
  }

  // The arguments of the kernel but for `x`, in order.
  template <class... Own>
  void launch_made(Own&... own) {
    void* const arguments[] = {&op_, const_cast<void*>(static_cast<const void*>(&own))..., &to_};
    made_->launch(form_, arguments);
  }

  void rows() {
    constexpr int V = k_neighbours<T>;
    const std::int64_t pitch = plan_.kept.inner_stride(1), units = form_.units;
    const int width = form_.width;
    in_pieces([&] {
      if (made_ != nullptr)
        return launch_made(pitch, units, width);
      if (form_.vector == V) {
        reduce_rows_kernel<V><<<form_.blocks, k_group_block, 0, stream_>>>(op_, x_, pitch, units, width, to_);
      } else {
        reduce_rows_kernel<1><<<form_.blocks, k_group_block, 0, stream_>>>(op_, x_, pitch, units, width, to_);
      }
    });
  }

  void columns() {
    constexpr int V = k_columns<T>;
    const ColumnShape shape = columns_of(plan_);
    const std::int64_t units = form_.units;
    const dim3 block(k_warp, k_column_rows);
    in_pieces([&] {
      if (made_ != nullptr)
        return launch_made(shape, units);
      if (form_.vector == V) {
        reduce_columns_kernel<V><<<form_.blocks, block, 0, stream_>>>(op_, x_, shape, units, to_);
      } else {
        reduce_columns_kernel<1><<<form_.blocks, block, 0, stream_>>>(op_, x_, shape, units, to_);
      }
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
    const std::int64_t units = form_.units;
    const int width = form_.width;
    in_pieces([&] {
      if (fits_32_bits(plan_.kept) && fits_32_bits(plan_.reduced)) {
        const Geometry<2, std::int32_t> kept(plan_.kept);
        const Geometry<1, std::int32_t> reduced(plan_.reduced);
        if (made_ != nullptr)
          return launch_made(kept, reduced, units, width);
        reduce_general_kernel<V>
            <<<form_.blocks, k_group_block, 0, stream_>>>(op_, x_, kept, reduced, units, width, to_);
      } else {
        const Geometry<2, std::int64_t> kept(plan_.kept);
        const Geometry<1, std::int64_t> reduced(plan_.reduced);
        reduce_general_kernel<V>
            <<<form_.blocks, k_group_block, 0, stream_>>>(op_, x_, kept, reduced, units, width, to_);
      }
    });
  }

  const KernelCall& call_;
  Op op_;
  const MadeOnGpu* made_;
  ReducePlan plan_;
  ReduceForm form_;
  TermsAt<T> x_;
  cudaStream_t stream_;
  ReduceTarget<Op> to_;
};

template <class T>
void reduce_type_on_gpu(Reduction row, const KernelCall& call, const ReduceSettings& settings) {
  with_state<T>(row, settings, [&](const auto& op) {
    using Op = std::remove_cvref_t<decltype(op)>;
    ReduceLaunch<Op, T>(call, op, settings.axes, settings.made_on_gpu).template run<k_by_layout<Op>>();
  });
}

}  // namespace sluice::detail
