#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <sluice/engine/parallel.h>
#include <sluice/operator/reduce/blocks_cpu.h>
#include <sluice/operator/reduce/rows.h>
#include <sluice/operator/workspace.h>

// The CPU side of every reduction that is one `Op`: rows (terms of an output are neighbours, or anyhow), and columns
// (neighbouring outputs read neighbouring inputs). Few outputs with many terms are cut into pieces by size alone.
namespace sluice::detail {

inline constexpr std::int64_t k_reduce_grain = 16384;

/// Joins `pieces` partial results an output, `outputs` apart.
template <class Op>
void join_pieces(
    const Op& op, const typename Op::Acc* partial, std::int64_t pieces, std::int64_t outputs, typename Op::Out* out) {
  parallel_for(outputs, std::max<std::int64_t>(1, k_reduce_grain / pieces), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      Cascade<Op> blocks(op);
      for (std::int64_t piece = 0; piece < pieces; ++piece)
        blocks.add(partial[piece * outputs + o]);
      out[o] = op.finish(blocks.total());
    }
  });
}

template <class Op, class T>
void reduce_rows(const Op& op, const Queue& queue, const ReducePlan& plan, const T* x, typename Op::Out* out) {
  const Split split = split_terms(plan.outputs(), plan.terms(), 256, 32768);
  const std::int64_t grain = std::max<std::int64_t>(1, k_reduce_grain / split.chunk);
  if (split.pieces == 1) {
    parallel_for(plan.outputs(), grain, [&](std::int64_t begin, std::int64_t end) {
      walk_runs(plan.kept, begin, end, [&](const StridedRun<2>& run) {
        const T* row = x + run.offset[1];
        for (std::int64_t i = 0; i < run.count; ++i)
          out[run.first + i] = op.finish(reduce_row(op, row + i * run.step[1], plan.reduced, 0, plan.terms()));
      });
    });
    return;
  }
  const std::int64_t units = plan.outputs() * split.pieces;
  Workspace scratch(queue, static_cast<std::size_t>(units) * sizeof(typename Op::Acc));
  auto* partial = scratch.as<typename Op::Acc>();
  parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t o = unit / split.pieces, piece = unit % split.pieces;
      const std::int64_t first = piece * split.chunk;
      const std::int64_t last = std::min(first + split.chunk, plan.terms());
      partial[piece * plan.outputs() + o] = reduce_row(op, x + kept_offset(plan, o), plan.reduced, first, last);
    }
  });
  join_pieces(op, partial, split.pieces, plan.outputs(), out);
}

template <class Op, class T>
void reduce_columns(const Op& op, const Queue& queue, const ReducePlan& plan, const T* x, typename Op::Out* out) {
  using Acc = typename Op::Acc;
  constexpr std::int64_t tile_width = TileCascade<Op>::k_width;
  const std::int64_t columns = plan.kept.inner(), outer = plan.outputs() / columns;
  const std::int64_t tiles = (columns + tile_width - 1) / tile_width;
  const Split split = split_terms(outer * tiles, plan.terms(), 64, 512);
  Workspace scratch(
      queue, split.pieces == 1 ? 0 : static_cast<std::size_t>(split.pieces * plan.outputs()) * sizeof(Acc));
  auto* partial = scratch.as<Acc>();
  const std::int64_t grain = std::max<std::int64_t>(1, k_reduce_grain / (split.chunk * std::min(columns, tile_width)));
  parallel_for(outer * tiles * split.pieces, grain, [&](std::int64_t begin, std::int64_t end) {
    Acc total[tile_width];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t tile = unit % tiles, piece = unit / tiles % split.pieces, row = unit / tiles / split.pieces;
      const std::int64_t first_output = row * columns + tile * tile_width;
      const int width = static_cast<int>(std::min(tile_width, columns - tile * tile_width));
      const T* from = x + kept_offset(plan, first_output);
      const std::int64_t first = piece * split.chunk;
      TileCascade<Op> blocks(op, width);
      walk_runs(plan.reduced, first, std::min(first + split.chunk, plan.terms()), [&](const StridedRun<1>& run) {
        for (std::int64_t i = 0; i < run.count; ++i)
          blocks.add_row(from + run.offset[0] + i * run.step[0]);
      });
      blocks.total(total);
      if (split.pieces == 1) {
        for (int j = 0; j < width; ++j)
          out[first_output + j] = op.finish(total[j]);
      } else {
        std::copy(total, total + width, partial + piece * plan.outputs() + first_output);
      }
    }
  });
  if (split.pieces > 1)
    join_pieces(op, partial, split.pieces, plan.outputs(), out);
}

template <class Op, class T>
void reduce_cpu(const KernelCall& call, const Op& op, const Shape& axes) {
  const TensorView& x = call.inputs[0];
  const ReducePlan plan = plan_reduce(x, axes);
  auto* out = call.outputs[0].as<typename Op::Out>();
  if (plan.outputs() == 0)
    return;
  if (plan.terms() == 0) {
    std::fill_n(out, plan.outputs(), op.finish(op.identity()));
  } else if (plan.columns()) {
    reduce_columns(op, call.queue, plan, x.as<const T>(), out);
  } else {
    reduce_rows(op, call.queue, plan, x.as<const T>(), out);
  }
}

template <class T>
void reduce_type_on_cpu(Reduction row, const KernelCall& call, const ReduceSettings& settings) {
  with_state<T>(row, settings, [&](const auto& op) {
    with_settled(op, [&](const auto& settled) {
      reduce_cpu<std::remove_cvref_t<decltype(settled)>, T>(call, settled, settings.axes);
    });
  });
}

}  // namespace sluice::detail
