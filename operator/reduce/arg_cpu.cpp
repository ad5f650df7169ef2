#include <algorithm>
#include <limits>
#include <type_traits>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/reduce/kernels.h>
#include <sluice/operator/reduce/place.h>
#include <sluice/operator/simd/arg_rows.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_grain = 16384;
constexpr std::int64_t k_block = 2048;  // neighbours looked at together: what is converted stays in the nearest cache
constexpr std::int64_t k_tile = 1024;   // columns worked on together

/// What is compared in place of T: itself, or a type that holds all its numbers and that vectors take.
template <class T>
using Compared = std::conditional_t<
    std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>,
    T,
    std::conditional_t<std::is_integral_v<T>, std::int32_t, float>>;

/// n neighbours as Compared: as they lie, or converted into `room`.
template <class T>
const Compared<T>* compared(const T* x, std::int64_t n, Compared<T>* room) noexcept {
  if constexpr (std::is_same_v<T, Compared<T>>) {
    return x;
  } else {
    if constexpr (std::is_integral_v<T>)
      std::copy(x, x + n, room);
    else
      simd::convert(x, room, n);
    return room;
  }
}

template <class T>
struct Room {
  Compared<T> at[std::is_same_v<T, Compared<T>> ? 1 : k_block];
};

template <bool Largest, class C>
bool is_better(C value, C best) noexcept {
  return (Largest ? value > best : value < best) || (is_nan(value) && !is_nan(best));
}

/// The best of n elements, terms [first, first + n) of their row: the first of equals.
template <bool Largest, class T>
Candidate<Compared<T>> best_of_strided(const T* x, std::int64_t n, std::int64_t step, std::int64_t first) noexcept {
  using C = Compared<T>;
  Candidate<C> best{static_cast<C>(x[0]), 0};
  for (std::int64_t i = 1; i < n && !is_nan(best.value); ++i) {
    const auto value = static_cast<C>(x[i * step]);
    if (is_better<Largest>(value, best.value))
      best = {value, i};
  }
  best.index += first;
  return best;
}

/// The same of neighbours: the best block is found first, then the place in it.
template <bool Largest, class T>
Candidate<Compared<T>> best_of_neighbours(
    const simd::ArgRows<Compared<T>>& rows, const T* x, std::int64_t n, std::int64_t first) noexcept {
  using C = Compared<T>;
  Room<T> room;
  const auto length = [n](std::int64_t begin) { return std::min(k_block, n - begin); };
  std::int64_t at = 0;
  C best = rows.best(compared(x, length(0), room.at), length(0));
  for (std::int64_t begin = k_block; begin < n && !is_nan(best); begin += k_block) {
    const C value = rows.best(compared(x + begin, length(begin), room.at), length(begin));
    if (is_better<Largest>(value, best)) {
      best = value;
      at = begin;
    }
  }
  return {best, first + at + rows.find(compared(x + at, length(at), room.at), length(at), best)};
}

template <bool Largest, class T>
Candidate<Compared<T>> best_of(const T* x, std::int64_t n, std::int64_t step, std::int64_t first) noexcept {
  constexpr std::int64_t k_few = 16;
  const auto* const rows = step == 1 && n >= k_few ? simd::arg_rows<Compared<T>>(Largest) : nullptr;
  return rows == nullptr ? best_of_strided<Largest>(x, n, step, first)
                         : best_of_neighbours<Largest>(*rows, x, n, first);
}

/// As ArgRows::row.
template <bool Largest, class C>
void take_row(const C* x, std::int64_t width, simd::RowNumber<C> row, C* best, simd::RowNumber<C>* where) {
  for (std::int64_t j = 0; j < width; ++j) {
    const bool wins = is_better<Largest>(x[j], best[j]);
    best[j] = wins ? x[j] : best[j];
    where[j] = wins ? row : where[j];
  }
}

/// Joins `pieces` candidates an output, `outputs` apart.
template <bool Largest, class C>
void join(const Candidate<C>* partial, std::int64_t pieces, std::int64_t outputs, std::int64_t* out) {
  parallel_for(outputs, std::max<std::int64_t>(1, k_grain / pieces), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      Candidate<C> best = partial[o];
      for (std::int64_t piece = 1; piece < pieces; ++piece)
        best = better<Largest>(best, partial[piece * outputs + o]);
      out[o] = best.index;
    }
  });
}

template <bool Largest, class T>
void arg_rows(const KernelCall& call, const ReducePlan& plan) {
  const T* const x = call.inputs[0].as<const T>();
  auto* const out = call.outputs[0].as<std::int64_t>();
  const std::int64_t step = plan.reduced.inner_stride(0), n = plan.terms(), outputs = plan.outputs();
  const Split split = split_terms(outputs, n, 256, 32768);
  if (split.pieces == 1) {
    for_each_run(plan.kept, std::max<std::int64_t>(1, k_grain / n), [&](const StridedRun<2>& run) {
      const T* const row = x + run.offset[1];
      for (std::int64_t i = 0; i < run.count; ++i)
        out[run.first + i] = best_of<Largest>(row + i * run.step[1], n, step, 0).index;
    });
    return;
  }
  using C = Candidate<Compared<T>>;
  const Workspace scratch(call.queue, static_cast<std::size_t>(outputs * split.pieces) * sizeof(C));
  auto* const partial = scratch.as<C>();
  parallel_for(outputs * split.pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t o = unit / split.pieces, piece = unit % split.pieces, first = piece * split.chunk;
      const T* const row = x + kept_offset(plan, o) + first * step;
      partial[piece * outputs + o] = best_of<Largest>(row, std::min(split.chunk, n - first), step, first);
    }
  });
  join<Largest>(partial, split.pieces, outputs, out);
}

/// One tile of neighbouring outputs, terms [first, last) of each.
template <bool Largest, class T>
class ColumnTile {
 public:
  using C = Compared<T>;
  using Row = simd::RowNumber<C>;

  ColumnTile(std::int64_t width) : width_(width) {}

  void run(const T* x, std::int64_t step, std::int64_t first, std::int64_t last) {
    const auto* const rows = simd::arg_rows<C>(Largest);
    const auto take = rows == nullptr ? &take_row<Largest, C> : rows->row;
    Room<T> room;
    const C* const top = compared(x + first * step, width_, room.at);
    std::copy(top, top + width_, best_);
    std::fill_n(where_, width_, Row{0});
    for (std::int64_t i = first + 1; i < last; ++i)
      take(compared(x + i * step, width_, room.at), width_, static_cast<Row>(i - first), best_, where_);
  }
  Candidate<C> at(std::int64_t column) const noexcept { return {best_[column], where_[column]}; }

 private:
  std::int64_t width_;
  C best_[k_tile];
  Row where_[k_tile];
};

template <bool Largest, class T>
void arg_columns(const KernelCall& call, const ReducePlan& plan) {
  const T* const x = call.inputs[0].as<const T>();
  auto* const out = call.outputs[0].as<std::int64_t>();
  const std::int64_t step = plan.reduced.inner_stride(0), n = plan.terms(), outputs = plan.outputs();
  const std::int64_t columns = plan.kept.inner(), tiles = (columns + k_tile - 1) / k_tile;
  const std::int64_t units = outputs / columns * tiles;
  const Split split = split_terms(units, n, 64, 256);
  using C = Candidate<Compared<T>>;
  const Workspace scratch(
      call.queue, split.pieces == 1 ? 0 : static_cast<std::size_t>(outputs * split.pieces) * sizeof(C));
  auto* const partial = scratch.as<C>();
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain / (split.chunk * std::min(columns, k_tile)));
  parallel_for(units * split.pieces, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t piece = unit % split.pieces, tile = unit / split.pieces % tiles;
      const std::int64_t output = unit / split.pieces / tiles * columns + tile * k_tile;
      const std::int64_t width = std::min(k_tile, columns - tile * k_tile), first = piece * split.chunk;
      ColumnTile<Largest, T> work(width);
      work.run(x + kept_offset(plan, output), step, first, std::min(first + split.chunk, n));
      for (std::int64_t j = 0; j < width; ++j) {
        const C found{work.at(j).value, first + work.at(j).index};
        if (split.pieces == 1)
          out[output + j] = found.index;
        else
          partial[piece * outputs + output + j] = found;
      }
    }
  });
  if (split.pieces > 1)
    join<Largest>(partial, split.pieces, outputs, out);
}

template <bool Largest>
void arg_cpu(const KernelCall& call) {
  const ReducePlan plan = plan_reduce(call.inputs[0], call.attributes.as<ReduceAttributes>().axes);
  if (plan.outputs() == 0)
    return;
  by_dtype(call.inputs[0].dtype, [&]<class T>() {
    constexpr std::int64_t most = std::numeric_limits<simd::RowNumber<Compared<T>>>::max();
    if (plan.columns() && plan.terms() <= most)
      arg_columns<Largest, T>(call, plan);
    else
      arg_rows<Largest, T>(call, plan);
  });
}

}  // namespace

void argmax_cpu(const KernelCall& call) {
  arg_cpu<true>(call);
}

void argmin_cpu(const KernelCall& call) {
  arg_cpu<false>(call);
}

}  // namespace sluice::detail
