#pragma once

// Scans along an axis on the CPU: rows are cut into pieces where there are too few of them, by shape alone; a piece
// begins with what the ones before it come to.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <sluice/engine/parallel.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/scan/kernels.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

template <class Op>
class CpuScan {
 public:
  using Acc = typename Op::Acc;

  CpuScan(const Op& op, const AxisLayout& at, bool reverse, bool in_pieces)
      : op_(op),
        at_(at),
        reverse_(reverse),
        width_(std::min(at.inner, k_tile)),
        tiles_((at.inner + width_ - 1) / width_),
        units_(at.outer * tiles_),
        split_(
            in_pieces ? split_terms(units_, at.n, 32, std::max<std::int64_t>(1, k_least / width_)) : Split{at.n, 1}) {}

  void run(const Queue& queue) const {
    const std::int64_t grain = std::max<std::int64_t>(1, k_least / (split_.chunk * width_));
    const std::int64_t pieces = split_.pieces;
    if (pieces == 1) {
      parallel_for(units_, grain, [&](std::int64_t begin, std::int64_t end) {
        if (at_.inner == 1)
          return walk_whole_rows(begin, end);
        for (std::int64_t unit = begin; unit < end; ++unit) {
          Acc acc[k_tile];
          std::fill_n(acc, width_, op_.identity());
          walk<true>(unit, 0, acc);
        }
      });
      return;
    }
    const Workspace scratch(queue, static_cast<std::size_t>(units_ * pieces * width_) * sizeof(Acc));
    auto* const totals = scratch.as<Acc>();
    std::fill_n(totals, units_ * pieces * width_, op_.identity());
    parallel_for(
        units_ * pieces, grain, [&](std::int64_t begin, std::int64_t end) { walk_all<false>(begin, end, totals); });
    for (std::int64_t unit = 0; unit < units_; ++unit)
      add_up(totals + unit * pieces * width_);
    parallel_for(
        units_ * pieces, grain, [&](std::int64_t begin, std::int64_t end) { walk_all<true>(begin, end, totals); });
  }

 private:
  static constexpr std::int64_t k_tile = 128, k_least = 32768, k_beside = 4;

  // Totals of the pieces of one unit become what comes before each.
  void add_up(Acc* totals) const {
    for (std::int64_t j = 0; j < width_; ++j) {
      Acc before = op_.identity();
      for (std::int64_t piece = 0; piece < split_.pieces; ++piece) {
        Acc& total = totals[piece * width_ + j];
        const Acc next = op_.join(before, total);
        total = before;
        before = next;
      }
    }
  }

  // One piece of a tile of columns, from what `acc` holds.
  template <bool Writes>
  void walk(std::int64_t unit, std::int64_t piece, Acc* acc) const {
    const std::int64_t column = unit % tiles_ * width_, columns = std::min(width_, at_.inner - column);
    const std::int64_t first = piece * split_.chunk, last = std::min(first + split_.chunk, at_.n);
    const std::int64_t base = unit / tiles_ * at_.n * at_.inner + column;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t entry = reverse_ ? at_.n - 1 - i : i, offset = base + entry * at_.inner;
      for (std::int64_t j = 0; j < columns; ++j) {
        acc[j] = op_.join(acc[j], op_.lift(offset + j, entry));
        if constexpr (Writes)
          op_.lower(offset + j, entry, acc[j]);
      }
    }
  }

  // Pieces [begin, end), those of a unit side by side, from what `acc` holds of all.
  template <bool Writes>
  void walk_all(std::int64_t begin, std::int64_t end, Acc* acc) const {
    if (at_.inner == 1)
      return walk_row_pieces<Writes>(begin, end, acc);
    for (std::int64_t i = begin; i < end; ++i)
      walk<Writes>(i / split_.pieces, i % split_.pieces, acc + i * width_);
  }

  // Rows in one piece, from nothing. Each entry waits for the one before it, not for those of other rows: some go on in
  // turns.
  void walk_whole_rows(std::int64_t begin, std::int64_t end) const {
    std::int64_t i = begin;
    for (; i + k_beside <= end; i += k_beside)
      walk_whole<k_beside>(i);
    for (; i < end; ++i)
      walk_whole<1>(i);
  }

  template <int Rows>
  void walk_whole(std::int64_t first) const {
    Acc acc[Rows];
    std::fill_n(acc, Rows, op_.identity());
    const std::int64_t n = at_.n, step = reverse_ ? -1 : 1;
    std::int64_t entry = reverse_ ? n - 1 : 0, offset = first * n + entry;
    for (std::int64_t i = 0; i < n; ++i, entry += step, offset += step) {
      for (int r = 0; r < Rows; ++r) {
        acc[r] = op_.join(acc[r], op_.lift(offset + r * n, entry));
        op_.lower(offset + r * n, entry, acc[r]);
      }
    }
  }

  // The same of pieces of rows, from what `acc` holds.
  template <bool Writes>
  void walk_row_pieces(std::int64_t begin, std::int64_t end, Acc* acc) const {
    std::int64_t i = begin;
    for (; i + k_beside <= end; i += k_beside)
      walk_beside<Writes, k_beside>(i, acc + i);
    for (; i < end; ++i)
      walk_beside<Writes, 1>(i, acc + i);
  }

  template <bool Writes, int Rows>
  void walk_beside(std::int64_t first, Acc* acc) const {
    std::int64_t offset[Rows], entry[Rows], count[Rows];
    const std::int64_t step = reverse_ ? -1 : 1;
    for (int r = 0; r < Rows; ++r) {
      const std::int64_t unit = (first + r) / split_.pieces, before = (first + r) % split_.pieces * split_.chunk;
      entry[r] = reverse_ ? at_.n - 1 - before : before;
      offset[r] = unit * at_.n + entry[r];
      count[r] = std::min(split_.chunk, at_.n - before);
    }
    Acc now[Rows];
    std::copy_n(acc, Rows, now);
    const auto go_on = [&](int r, std::int64_t i) {
      now[r] = op_.join(now[r], op_.lift(offset[r] + i * step, entry[r] + i * step));
      if constexpr (Writes)
        op_.lower(offset[r] + i * step, entry[r] + i * step, now[r]);
    };
    const std::int64_t least = *std::min_element(count, count + Rows);  // the last piece of a row may be a shorter one
    for (std::int64_t i = 0; i < least; ++i) {
      for (int r = 0; r < Rows; ++r)
        go_on(r, i);
    }
    for (int r = 0; r < Rows; ++r) {
      for (std::int64_t i = least; i < count[r]; ++i)
        go_on(r, i);
    }
    std::copy_n(now, Rows, acc);
  }

  const Op& op_;
  const AxisLayout& at_;
  bool reverse_;
  std::int64_t width_, tiles_, units_;
  Split split_;
};

/// Along the axis of the call's first input; `in_pieces`: a piece may come to something before what it goes on from is
/// known.
template <class Op>
void scan_on_cpu(const KernelCall& call, const Op& op, bool in_pieces = true) {
  const auto& a = call.attributes.as<ScanAttributes>();
  if (call.inputs[0].size == 0)
    return;
  const AxisLayout at = axis_layout(call.inputs[0].shape, axis_of<ScanAttributes>(call.attributes));
  CpuScan<Op>(op, at, a.reverse, in_pieces).run(call.queue);
}

}  // namespace sluice::detail
