// Entries taken, added up where they were taken, and replaced, for all kinds of numbers that name them.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/gather/entries_cpu.h>
#include <sluice/operator/gather/kernels.h>
#include <sluice/operator/simd/move_rows.h>
#include <sluice/operator/simd/rows.h>

namespace sluice::detail {

namespace {

// Positions of the indices, sorted by the entry that they name; those of entry e are
// [starts[e], starts[e + 1]). Equal ones keep their order, so that sums have one order.
struct Positions {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> at;
};

Positions sort_positions(const KernelCall& call, const Taking& taking) {
  const std::int64_t n = taking.at.n, count = taking.place.count;
  Positions sorted;
  sorted.starts.assign(static_cast<std::size_t>(n) + 1, 0);
  sorted.at.resize(static_cast<std::size_t>(count));
  for_each_entry(call, taking, 0, count, [&](std::int64_t, std::int64_t entry) { ++sorted.starts[entry + 1]; });
  for (std::int64_t e = 0; e < n; ++e)
    sorted.starts[e + 1] += sorted.starts[e];
  std::vector<std::int64_t> next(sorted.starts.begin(), sorted.starts.end() - 1);
  for_each_entry(call, taking, 0, count, [&](std::int64_t i, std::int64_t entry) { sorted.at[next[entry]++] = i; });
  return sorted;
}

template <class T>
void add_rows(const KernelCall& call, const Taking& taking) {
  using C = Compute<T>;
  const TakeLayout& at = taking.at;
  const T* dy = call.inputs[1].as<const T>();
  T* dx = call.outputs[0].as<T>();
  const Positions sorted = sort_positions(call, taking);
  parallel_for(at.outer * at.n, grain_of(at.inner), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> total(static_cast<std::size_t>(at.inner));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t outer = row / at.n, entry = row % at.n;
      std::fill(total.begin(), total.end(), C{0});
      for (std::int64_t p = sorted.starts[entry]; p < sorted.starts[entry + 1]; ++p) {
        const T* from = dy + (outer * at.indices + sorted.at[p]) * at.inner;
        for (std::int64_t i = 0; i < at.inner; ++i)
          total[i] += static_cast<C>(from[i]);
      }
      for (std::int64_t i = 0; i < at.inner; ++i)
        dx[row * at.inner + i] = static_cast<T>(total[i]);
    }
  });
}

/// Elements that are added one by one, in the order of their positions: those of a block meet those of no other. `n`
/// entries of the gradient and `positions` numbers lie along an axis, `inner` elements behind it.
struct Columns {
  std::int64_t outer = 1, positions, n, inner = 1;
};

template <class T>
void add_columns(const KernelCall& call, const Taking& taking, const Columns& at) {
  using C = Compute<T>;
  constexpr bool in_place = std::is_same_v<C, T>;
  const T* dy = call.inputs[1].as<const T>();
  T* dx = call.outputs[0].as<T>();
  // Columns of a block are neighbours in memory; sums beside half types are to stay in a cache.
  const std::int64_t most = std::clamp<std::int64_t>((1 << 18) / at.n, 1, 64);
  const std::int64_t blocks = (at.inner + most - 1) / most;
  const std::int64_t elements = (at.n + at.positions) * std::min(at.inner, most);
  parallel_for(at.outer * blocks, grain_of(elements), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> sums;
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t outer = block / blocks, first = block % blocks * most;
      const std::int64_t width = std::min(most, at.inner - first), base = outer * at.n * at.inner + first;
      std::int64_t step = at.inner;
      C* total = nullptr;
      if constexpr (in_place) {
        total = dx + base;
        // All at once where they lie side by side: a call for each is dearer than the sums.
        const std::int64_t runs = width == step ? 1 : at.n, run = width == step ? at.n * width : width;
        for (std::int64_t e = 0; e < runs; ++e)
          std::fill_n(total + e * step, run, C{0});
      } else {
        step = width;
        sums.assign(static_cast<std::size_t>(at.n * width), C{0});
        total = sums.data();
      }
      // Where nothing lies behind the axis numbers of several positions are neighbours.
      const std::int64_t together = at.inner == 1 ? k_looked_up : 1, column = at.inner == 1 ? 0 : 1;
      for (std::int64_t p = 0; p < at.positions; p += together) {
        const std::int64_t from = (outer * at.positions + p) * at.inner + first;
        const std::int64_t count = std::min(together, at.positions - p) * width;
        std::int64_t to[k_looked_up];
        look_up(call, taking, from, count, to);
        for (std::int64_t i = 0; i < count; ++i)
          total[to[i] * step + i * column] += static_cast<C>(dy[from + i]);
      }
      for (std::int64_t e = 0; !in_place && e < at.n; ++e) {
        for (std::int64_t i = 0; i < width; ++i)
          dx[base + e * at.inner + i] = static_cast<T>(total[e * step + i]);
      }
    }
  });
}

/// Elements of one axis, added where they lie.
template <class T>
void add_elements(const KernelCall& call, const Taking& taking) {
  const T* const dy = call.inputs[1].as<const T>();
  T* const dx = call.outputs[0].as<T>();
  in_halves(taking, [&](std::int64_t begin, std::int64_t end) {
    std::fill(dx + begin, dx + end, T{0});
    for_each_entry_within(call, taking, begin, end, [&](std::int64_t i, std::int64_t entry) { dx[entry] += dy[i]; });
  });
}

/// For every entry the last position that names it, -1 where none does.
std::vector<std::int64_t> last_positions(const KernelCall& call, const Taking& taking) {
  std::vector<std::int64_t> last(static_cast<std::size_t>(taking.at.n), -1);
  for_each_entry(call, taking, 0, taking.place.count, [&](std::int64_t i, std::int64_t entry) { last[entry] = i; });
  return last;
}

/// Moves entries of one size between two arrays: rows of bytes, or where an entry is one element elements.
struct RowMoves {
  // So many bytes of rows are asked for before they are needed: rows lie anywhere, so no one else knows which.
  static constexpr std::size_t k_asked = 2048;

  const std::byte* from;
  std::byte* to;
  std::size_t bytes;

  RowMoves(const TensorView& source, const TensorView& target, const TakeLayout& at)
      : from(source.as<const std::byte>()),
        to(target.as<std::byte>()),
        bytes(static_cast<std::size_t>(at.inner) * size_of(target.dtype)) {}

  const std::byte* source(std::int64_t row) const { return from + static_cast<std::size_t>(row) * bytes; }
  std::byte* target(std::int64_t row) const { return to + static_cast<std::size_t>(row) * bytes; }

  void move(std::int64_t from_row, std::int64_t to_row) const {
    const std::byte* const a = source(from_row);
    std::byte* const b = target(to_row);
    switch (bytes) {  // of which the compiler knows how to move them
      case 1:
        *b = *a;
        return;
      case 2:
        std::memcpy(b, a, 2);
        return;
      case 4:
        std::memcpy(b, a, 4);
        return;
      case 8:
        std::memcpy(b, a, 8);
        return;
      default:
        std::memcpy(b, a, bytes);
    }
  }
  /// Rows [begin, end) to where they were.
  void move_all(std::int64_t begin, std::int64_t end) const {
    std::memcpy(target(begin), source(begin), static_cast<std::size_t>(end - begin) * bytes);
  }
  /// Asks for a row that is read soon.
  void expect(std::int64_t row) const {
    const std::byte* const a = source(row);
    for (std::size_t line = 0; line < std::min(bytes, k_asked); line += 64)
      __builtin_prefetch(a + line);
  }
  /// What a row of whole lines is moved by past the caches, where no cache would keep `count` of them until they are
  /// read; otherwise null.
  simd::LineCopy streamed(std::int64_t count) const {
    constexpr std::size_t k_line = 64, k_large = std::size_t{4} << 20;
    const bool whole = bytes % k_line == 0 && reinterpret_cast<std::uintptr_t>(to) % k_line == 0;
    return whole && static_cast<std::size_t>(count) * bytes >= k_large ? simd::line_copy() : nullptr;
  }
  void clear(std::int64_t row) const { std::memset(target(row), 0, bytes); }
};

void copy_all(const TensorView& from, const TensorView& to) {
  const auto bytes = static_cast<std::int64_t>(size_of(to.dtype)) * to.size;
  parallel_for(bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to.as<std::byte>() + begin, from.as<const std::byte>() + begin, static_cast<std::size_t>(end - begin));
  });
}

/// Rows to positions [begin, end) of those taken, of whole entries.
void take_rows(
    const KernelCall& call, const Taking& taking, const RowMoves& rows, std::int64_t begin, std::int64_t end) {
  const auto ahead = static_cast<std::int64_t>(std::max<std::size_t>(1, RowMoves::k_asked / rows.bytes));
  const simd::LineCopy streamed = rows.streamed(taking.at.indices);
  std::int64_t entries[k_looked_up];
  for (std::int64_t first = begin; first < end; first += k_looked_up) {
    const std::int64_t count = std::min(k_looked_up, end - first);
    look_up(call, taking, first, count, entries);
    for (std::int64_t i = 0; i < count; ++i) {
      if (i + ahead < count)
        rows.expect(entries[i + ahead]);
      if (streamed != nullptr)
        streamed(rows.source(entries[i]), rows.bytes, rows.target(first + i));
      else
        rows.move(entries[i], first + i);
    }
  }
  if (streamed != nullptr)
    simd::finish_streams();
}

/// Calls f(row of what is taken, row of the other array, entry, position) for all rows. Those of one entry, and they
/// alone, follow each other in one piece, in the order of their positions.
template <class F>
void for_each_row(const KernelCall& call, const Taking& taking, const F& f) {
  const TakeLayout& at = taking.at;
  if (taking.place.inner != 0) {  // entries before the axis are apart
    const std::int64_t each = taking.place.entries * taking.place.inner;
    parallel_for(each == 0 ? 0 : at.indices / each, grain_of(each), [&](std::int64_t begin, std::int64_t end) {
      for_each_entry(
          call, taking, begin * each, end * each, [&](std::int64_t i, std::int64_t entry) { f(i, entry, entry, i); });
    });
    return;
  }
  parallel_for(at.outer, grain_of(at.indices * at.inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t outer = begin; outer < end; ++outer) {
      for_each_entry(call, taking, 0, at.indices, [&](std::int64_t i, std::int64_t entry) {
        f(outer * at.indices + i, outer * at.n + entry, entry, i);
      });
    }
  });
}

}  // namespace

void take_cpu(const KernelCall& call, IndexKind kind) {
  const Taking taking = taking_of(kind, call, call.inputs[1], call.inputs[0].shape);
  if (!call.inputs[0].contiguous)
    return take_strided_cpu(call, taking);
  const TakeLayout& at = taking.at;
  const RowMoves rows(call.inputs[0], call.outputs[0], at);
  if (at.outer == 1) {
    constexpr std::size_t k_long = 256;  // bytes: shorter ones are not waited for
    parallel_for(at.indices, grain_of(at.inner), [&](std::int64_t begin, std::int64_t end) {
      if (taking.place.inner == 0 && rows.bytes >= k_long)
        return take_rows(call, taking, rows, begin, end);
      for_each_entry(call, taking, begin, end, [&](std::int64_t i, std::int64_t entry) { rows.move(entry, i); });
    });
    return;
  }
  parallel_for(at.outer * at.indices, grain_of(at.inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      rows.move(row / at.indices * at.n + entry_at(call, taking, row % at.indices), row);
  });
}

void take_backward_cpu(const KernelCall& call, IndexKind kind) {
  const TensorView &indices = call.inputs[0], &dx = call.outputs[0];
  const Taking taking = taking_of(kind, call, indices, dx.shape);
  if (dx.size == 0)
    return;
  by_summable(dx.dtype, [&]<class T>() {
    const Placing& place = taking.place;
    if (kind == IndexKind::along) {
      const std::int64_t n = place.extents[0];
      add_columns<T>(call, taking, {dx.size / (n * place.inner), place.entries, n, place.inner});
    } else if (taking.at.outer * taking.at.inner == 1) {
      if constexpr (std::is_same_v<Compute<T>, T>)
        add_elements<T>(call, taking);
      else
        add_columns<T>(call, taking, {.positions = place.count, .n = taking.at.n});
    } else {
      add_rows<T>(call, taking);
    }
  });
}

void put_cpu(const KernelCall& call, IndexKind kind) {
  const TensorView& y = call.outputs[0];
  const Taking taking = taking_of(kind, call, call.inputs[1], y.shape);
  const RowMoves values(call.inputs[2], y, taking.at);
  if (taking.at.outer == 1 && taking.place.inner == 0) {
    const RowMoves kept(call.inputs[0], y, taking.at);
    return in_halves(taking, [&](std::int64_t begin, std::int64_t end) {
      kept.move_all(begin, end);
      for_each_entry_within(
          call, taking, begin, end, [&](std::int64_t i, std::int64_t entry) { values.move(i, entry); });
    });
  }
  copy_all(call.inputs[0], y);
  for_each_row(
      call, taking, [&](std::int64_t row, std::int64_t place, std::int64_t, std::int64_t) { values.move(row, place); });
}

void put_backward_cpu(const KernelCall& call, IndexKind kind) {
  const TensorView &dy = call.inputs[1], &dx = call.outputs[0], &dvalues = call.outputs[1];
  const Taking taking = taking_of(kind, call, call.inputs[0], dy.shape);
  copy_all(dy, dx);
  const std::vector<std::int64_t> last = last_positions(call, taking);
  const RowMoves kept(dy, dx, taking.at), values(dy, dvalues, taking.at);
  for_each_row(call, taking, [&](std::int64_t row, std::int64_t place, std::int64_t entry, std::int64_t position) {
    kept.clear(place);
    if (last[entry] == position)
      values.move(place, row);
    else
      values.clear(row);
  });
}

}  // namespace sluice::detail
