#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <boost/container/small_vector.hpp>

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

/// Rows of a few elements are worth code of their own for what most programs reduce so.
template <class Op>
inline constexpr bool k_takes_short_rows = false;
template <>
inline constexpr bool k_takes_short_rows<SumOf<float>> = true;
template <>
inline constexpr bool k_takes_short_rows<SquaresOf<float>> = true;
template <>
inline constexpr bool k_takes_short_rows<MomentsOf<float>> = true;
template <bool Largest>
inline constexpr bool k_takes_short_rows<SettledExtremeOf<float, Largest, false>> = true;

/// n elements, `step` apart, as neighbours.
[[gnu::noinline]] void take_every(const float* from, std::int64_t step, std::int64_t n, float* to) noexcept;

/// Outputs of fewer terms than a block has lanes, side by side, in the very order in which a block adds them.
template <class Op>
void reduce_short_rows(const Op& op, const ReducePlan& plan, const float* x, typename Op::Out* out) {
  constexpr std::int64_t k_together = 64;
  const std::int64_t terms = plan.terms(), apart = plan.reduced.inner_stride(0);
  parallel_for(plan.outputs(), k_reduce_grain / terms, [&](std::int64_t begin, std::int64_t end) {
    typename Op::Acc acc[k_together];
    float term[k_together] = {};  // where outputs are fewer, what is left of others is taken too and not asked for
    walk_runs(plan.kept, begin, end, [&](const StridedRun<2>& run) {
      for (std::int64_t i = 0; i < run.count; i += k_together) {
        const std::int64_t n = std::min(k_together, run.count - i);
        const float* const from = x + run.offset[1] + i * run.step[1];
        take_every(from, run.step[1], n, term);
        for (std::int64_t j = 0; j < k_together; ++j)
          acc[j] = op.lift(term[j]);
        for (std::int64_t t = 1; t < terms; ++t) {
          take_every(from + t * apart, run.step[1], n, term);
          for (std::int64_t j = 0; j < k_together; ++j)
            acc[j] = with_term(op, acc[j], term[j]);
        }
        for (std::int64_t j = 0; j < n; ++j)
          out[run.first + i + j] = op.finish(acc[j]);
      }
    });
  });
}

template <class Op, class T>
void reduce_rows(const Op& op, const Queue& queue, const ReducePlan& plan, const Terms<T>& x, typename Op::Out* out) {
  const Split split = split_terms(plan.outputs(), plan.terms(), 256, 32768);
  const std::int64_t grain = std::max<std::int64_t>(1, x.grain_of(k_reduce_grain) / split.chunk);
  const std::int64_t terms = plan.terms();
  if constexpr (k_takes_short_rows<Op>) {
    if (x.made == nullptr && plan.reduced.ndim == 1 && terms < k_lanes && plan.kept.inner() >= k_lanes)
      return reduce_short_rows(op, plan, x.x, out);
  }
  if (split.pieces == 1) {
    parallel_for(plan.outputs(), grain, [&](std::int64_t begin, std::int64_t end) {
      TermReader<T> reader(x, plan.reduced.inner(), k_block_terms);
      walk_runs(plan.kept, begin, end, [&](const StridedRun<2>& run) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const std::int64_t rest = run.step[1] == terms ? (run.count - i) * terms : terms;
          const std::int64_t from = run.offset[1] + i * run.step[1];
          out[run.first + i] = op.finish(reduce_row(op, reader, from, plan.reduced, 0, terms, rest));
        }
      });
    });
    return;
  }
  const std::int64_t units = plan.outputs() * split.pieces;
  Workspace scratch(queue, static_cast<std::size_t>(units) * sizeof(typename Op::Acc));
  auto* partial = scratch.as<typename Op::Acc>();
  parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end) {
    TermReader<T> reader(x, plan.reduced.inner(), k_block_terms);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t o = unit / split.pieces, piece = unit % split.pieces;
      const std::int64_t first = piece * split.chunk, last = std::min(first + split.chunk, terms);
      partial[piece * plan.outputs() + o] =
          reduce_row(op, reader, kept_offset(plan, o), plan.reduced, first, last, last - first);
    }
  });
  join_pieces(op, partial, split.pieces, plan.outputs(), out);
}

/// Neighbouring outputs as threads take them: a tile at a time, or several where their terms are made.
struct ColumnGroups {
  std::int64_t width = 0;     // of a tile
  std::int64_t columns = 0;   // neighbouring outputs
  std::int64_t tiles = 0;     // of them
  std::int64_t together = 1;  // tiles, at most
  std::int64_t count = 0;     // groups of so many tiles

  ColumnGroups(std::int64_t tile_width, std::int64_t neighbours)
      : width(tile_width), columns(neighbours), tiles((neighbours + tile_width - 1) / tile_width), count(tiles) {}

  /// `units`: how many tiles all threads have. Nothing of a result depends on it.
  void join(const MadeTerms& made, std::int64_t units) {
    constexpr std::int64_t k_most = 8, k_enough_units = 16;
    const std::int64_t most =
        std::clamp(std::min(units / k_enough_units, made.most() / width), std::int64_t{1}, k_most);
    count = (tiles + most - 1) / most;
    together = (tiles + count - 1) / count;
    count = (tiles + together - 1) / together;
  }
};

/// One piece of the terms of one group's columns.
template <class Op, class T>
class ColumnSums {
 public:
  ColumnSums(const Op& op, const ReducePlan& plan, const ColumnGroups& groups, const Terms<T>& x)
      : op_(op), plan_(plan), groups_(groups), reader_(x, std::min(groups.columns, groups.together * groups.width), 1) {
    blocks_.reserve(static_cast<std::size_t>(groups.together));
  }

  /// Calls put(column, n, totals) for stretches of the group's columns, of terms [begin, end); output `first` is column
  /// 0.
  template <class Put>
  void run(std::int64_t first, std::int64_t group, std::int64_t begin, std::int64_t end, const Put& put) {
    const std::int64_t width = groups_.width, from_column = group * groups_.together * width;
    const std::int64_t columns = std::min(groups_.together * width, groups_.columns - from_column);
    blocks_.clear();
    for (std::int64_t at = 0; at < columns; at += width)
      blocks_.emplace_back(op_, static_cast<int>(std::min(width, columns - at)));
    const std::int64_t from = kept_offset(plan_, first + from_column);
    if constexpr (k_takes_short_rows<Op>) {
      if (const std::int64_t together = narrow_rows(end - begin)) {
        narrow(from + begin * columns, end - begin, together);
        return put(from_column, columns, static_cast<const typename Op::Acc*>(total_));
      }
    }
    walk_runs(plan_.reduced, begin, end, [&](const StridedRun<1>& run) { add_rows(from, run, columns); });
    for (std::size_t tile = 0; tile < blocks_.size(); ++tile) {
      blocks_[tile].total(total_);
      const std::int64_t at = static_cast<std::int64_t>(tile) * width;
      put(from_column + at, std::min(width, columns - at), static_cast<const typename Op::Acc*>(total_));
    }
  }

 private:
  void add_rows(std::int64_t from, const StridedRun<1>& run, std::int64_t columns) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t rest = run.step[0] == columns ? (run.count - i) * columns : columns;
      const T* const row = reader_.at(from + run.offset[0] + i * run.step[0], columns, rest);
      for (std::size_t tile = 0; tile < blocks_.size(); ++tile)
        blocks_[tile].add_row(row + static_cast<std::int64_t>(tile) * groups_.width);
    }
  }
  // Rows of a few columns, all neighbours: how many of them go as one; 0: each is one.
  std::int64_t narrow_rows(std::int64_t rows) const {
    constexpr std::int64_t k_fewest = 4;
    const std::int64_t together = TileCascade<Op>::k_width / groups_.columns;
    const bool are_close = plan_.reduced.ndim == 1 && plan_.reduced.inner_stride(0) == groups_.columns;
    return are_close && together >= k_fewest && rows >= together ? together : 0;
  }
  void narrow(std::int64_t from, std::int64_t rows, std::int64_t together) {
    const std::int64_t columns = groups_.columns, width = together * columns, all = rows * columns;
    blocks_.clear();
    blocks_.emplace_back(op_, static_cast<int>(width));
    const std::int64_t at = all / width * width;
    add_rows(from, {.count = all / width, .step = {width}}, width);
    blocks_[0].total(total_);
    if (at < all) {
      const T* const rest = reader_.at(from + at, all - at, all - at);
      for (std::int64_t j = 0; at + j < all; ++j)
        total_[j] = with_term(op_, total_[j], rest[j]);
    }
    for (std::int64_t left = together; left > 1;) {
      const std::int64_t half = (left + 1) / 2;
      for (std::int64_t j = 0; j < (left - half) * columns; ++j)
        total_[j] = op_.join(total_[j], total_[half * columns + j]);
      left = half;
    }
  }

  const Op& op_;
  const ReducePlan& plan_;
  const ColumnGroups& groups_;
  TermReader<T> reader_;
  boost::container::small_vector<TileCascade<Op>, 1> blocks_;
  typename Op::Acc total_[TileCascade<Op>::k_width];
};

template <class Op, class T>
void reduce_columns(
    const Op& op, const Queue& queue, const ReducePlan& plan, const Terms<T>& x, typename Op::Out* out) {
  using Acc = typename Op::Acc;
  const std::int64_t columns = plan.kept.inner(), outer = plan.outputs() / columns;
  ColumnGroups groups(TileCascade<Op>::k_width, columns);
  const Split split = split_terms(outer * groups.tiles, plan.terms(), 64, 512);
  if (x.made != nullptr)
    groups.join(*x.made, outer * groups.tiles * split.pieces);
  Workspace scratch(
      queue, split.pieces == 1 ? 0 : static_cast<std::size_t>(split.pieces * plan.outputs()) * sizeof(Acc));
  auto* partial = scratch.as<Acc>();
  const std::int64_t width = std::min(columns, groups.together * groups.width);
  const std::int64_t grain = std::max<std::int64_t>(1, x.grain_of(k_reduce_grain) / (split.chunk * width));
  parallel_for(outer * groups.count * split.pieces, grain, [&](std::int64_t begin, std::int64_t end) {
    ColumnSums<Op, T> sums(op, plan, groups, x);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t group = unit % groups.count, piece = unit / groups.count % split.pieces;
      const std::int64_t first_output = unit / groups.count / split.pieces * columns, first = piece * split.chunk;
      const std::int64_t last = std::min(first + split.chunk, plan.terms());
      sums.run(first_output, group, first, last, [&](std::int64_t column, std::int64_t n, const Acc* total) {
        if (split.pieces > 1) {
          std::copy_n(total, n, partial + piece * plan.outputs() + first_output + column);
          return;
        }
        for (std::int64_t j = 0; j < n; ++j)
          out[first_output + column + j] = op.finish(total[j]);
      });
    }
  });
  if (split.pieces > 1)
    join_pieces(op, partial, split.pieces, plan.outputs(), out);
}

template <class Op, class T>
void reduce_cpu(const KernelCall& call, const Op& op, const ReduceSettings& settings) {
  const TensorView& x = call.inputs[0];
  const ReducePlan plan = plan_reduce(x, settings.axes);
  const Terms<T> terms{x.as<const T>(), settings.made};
  auto* out = call.outputs[0].as<typename Op::Out>();
  if (plan.outputs() == 0)
    return;
  if (plan.terms() == 0) {
    std::fill_n(out, plan.outputs(), op.finish(op.identity()));
  } else if (plan.columns()) {
    reduce_columns(op, call.queue, plan, terms, out);
  } else {
    reduce_rows(op, call.queue, plan, terms, out);
  }
}

template <class T>
void reduce_type_on_cpu(Reduction row, const KernelCall& call, const ReduceSettings& settings) {
  with_state<T>(row, settings, [&](const auto& op) {
    with_settled(op, [&](const auto& settled) {
      reduce_cpu<std::remove_cvref_t<decltype(settled)>, T>(call, settled, settings);
    });
  });
}

}  // namespace sluice::detail
