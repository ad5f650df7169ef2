#pragma once

// One kernel for what works along rows: softmax and its like, their gradients, cross entropies. A row
// operator is a struct that derives from RowOperands and says
//   k_joined                  whether a Total of all elements of a row is wanted (false: start() to finish() at once)
//   Total start(offset)       of no element; `offset` is the row's first element
//   void take(Total&, values, first)
//                             adds elements first, first + 1, ..; values.at[k][j] is the j-th one of operand k
//   Total join(a, b)          of two parts of a row; symmetric, associative up to rounding
//   finish(row, offset, total, once)
//                             what give() is told; writes what there is one of a row, where `once`
//   k_tells                   whether finish() writes such things, which rows without elements have too
//   C give(told, values, j, i)
//                             element i of the result, with k_writes; or give_vector(told, values, i, made), that and
//                             its neighbours; put(place, made) if not all are written as they are made
// A row that fits the registers of its threads is read once; `InRegisters` names the operator that works there. It says
// what stands where a row ends (k_absent), and may look at the row twice: with k_twice there are start_again(total),
// take_again(second, values, total, first), join_again(a, b), and finish() gets both; k_changes: take_again() makes of
// the values those that give() gets.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/pairs.cuh>

namespace sluice::detail {

/// Rows that lie anyhow: n elements `step` apart, for each of `count` rows; `width` threads share one.
struct Rows {
  std::int64_t count = 0;
  std::int64_t n = 0;
  std::int64_t step = 1;
  std::int64_t beside = 1;  // rows that lie element beside element
  std::int64_t pitch = 0;   // from there to the next ones
  int width = k_warp;

  Rows() = default;
  /// Of a contiguous array, along one axis: many threads for rows of neighbours, one for columns, where the next thread
  /// has the next column.
  explicit Rows(const AxisLayout& at)
      : count(at.outer * at.inner),
        n(at.n),
        step(at.inner),
        beside(at.inner),
        pitch(at.n * at.inner),
        width(
            at.inner > 1   ? 1
            : at.n <= 1024 ? k_warp
                           : k_group_block) {}

  __device__ std::int64_t offset(std::int64_t row) const {
    return beside == 1 ? row * pitch : row / beside * pitch + row % beside;
  }
  unsigned blocks() const noexcept { return blocks_for_groups(count, width); }
};

/// What a row operator reads, `Reads` arrays of one layout, and writes.
template <class T, int Reads, bool Writes>
struct RowOperands {
  using Element = T;
  static constexpr int k_reads = Reads, k_kept = Reads == 0 ? 1 : Reads;
  static constexpr bool k_writes = Writes, k_joined = true, k_tells = !Writes, k_twice = false, k_changes = false;
  using InRegisters = void;
  /// Of a multiprocessor, where a thread keeps so many elements of each operand: some read while others join.
  static constexpr int blocks_at_least(int) { return 1; }
  const T* in[k_kept] = {};
  T* out = nullptr;

  /// Rows can be read and written in vectors of V elements.
  bool in_vectors(const Rows& rows, int V) const noexcept {
    bool aligned = reinterpret_cast<std::uintptr_t>(out) % 16 == 0;
    for (const T* data : in)
      aligned = aligned && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
    return aligned && rows.step == 1 && rows.beside == 1 && rows.n % V == 0 && rows.pitch % V == 0;
  }
};

/// V elements of each operand.
template <class C, int K, int V>
struct RowValues {
  C at[K][V];
};
/// The same as they lie in memory.
template <class T, int K, int V>
struct RowVectors {
  Neighbours<T, V> of[K];
};

template <class T, int K, int V>
__device__ auto widened(const RowVectors<T, K, V>& raw) {
  using C = Compute<T>;
  RowValues<C, K, V> values;
#pragma unroll
  for (int k = 0; k < K; ++k)
    widen(raw.of[k], values.at[k]);
  return values;
}
template <class C, int K, int V>
__device__ RowValues<C, K, V>& widened(RowValues<C, K, V>& values) {
  return values;
}

template <int V, class R>
__device__ RowVectors<typename R::Element, R::k_kept, V> load_row(
    const R& op, std::int64_t offset, std::int64_t step, std::int64_t i) {
  using T = typename R::Element;
  RowVectors<T, R::k_kept, V> loaded;
#pragma unroll
  for (int k = 0; k < R::k_reads; ++k) {
    if constexpr (V == 1) {
      loaded.of[k].at[0] = op.in[k][offset + i * step];
    } else {
      loaded.of[k] = reinterpret_cast<const Neighbours<T, V>*>(op.in[k] + offset)[i];
    }
  }
  return loaded;
}

/// Vector i of a row that is `vectors` long, R::k_absent behind its end: whole words up to where they are looked at, so
/// that no load waits for another one.
template <int V, class R>
__device__ RowVectors<typename R::Element, R::k_kept, V> load_row_or_absent(
    const R& op, std::int64_t offset, int i, int vectors) {
  using T = typename R::Element;
  using Words = Neighbours<std::uint32_t, 4>;
  Neighbours<T, V> absent;
  static_assert(sizeof(absent) == sizeof(Words));
#pragma unroll
  for (int j = 0; j < V; ++j)
    absent.at[j] = static_cast<T>(R::k_absent);
  RowVectors<T, R::k_kept, V> loaded;
#pragma unroll
  for (int k = 0; k < R::k_kept; ++k) {
    Words words;
    memcpy(&words, &absent, sizeof(words));
    if (k < R::k_reads && i < vectors)
      words = reinterpret_cast<const Words*>(op.in[k] + offset)[i];
    memcpy(&loaded.of[k], &words, sizeof(words));
  }
  return loaded;
}

template <int V, class R, class Told, class Values>
__device__ void store_row(
    const R& op, const Told& told, const Values& values, std::int64_t offset, std::int64_t step, std::int64_t i) {
  using T = typename R::Element;
  Neighbours<T, V> made;
  if constexpr (requires { op.give_vector(told, values, i * V, made); }) {
    op.give_vector(told, values, i * V, made);
  } else {
    decltype(op.give(told, values, 0, i)) given[V];
#pragma unroll
    for (int j = 0; j < V; ++j)
      given[j] = op.give(told, values, j, i * V + j);
    narrow(given, made);
  }
  const std::int64_t place = offset + i * (V == 1 ? step : V);
  if constexpr (requires { op.put(place, made); }) {
    op.put(place, made);
  } else {
    *reinterpret_cast<Neighbours<T, V>*>(op.out + place) = made;
  }
}

/// Any rows, V elements a load. What is written looks at the row again, which then lies in a cache.
template <int V, class R>
__global__ void __launch_bounds__(k_group_block) row_kernel(R op, Rows rows) {
  start_early();
  const Group group(rows.width);
  [[maybe_unused]] const std::int64_t vectors = rows.n / V;
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t offset = rows.offset(row);
    auto total = op.start(offset);
    if constexpr (R::k_joined) {
      std::int64_t i = group.lane;
      if constexpr (V > 1) {
        constexpr int k_under_way = 4 / R::k_kept;
        for (; i + (k_under_way - 1) * rows.width < vectors; i += k_under_way * rows.width) {
          RowVectors<typename R::Element, R::k_kept, V> loaded[k_under_way];
#pragma unroll
          for (int u = 0; u < k_under_way; ++u)
            loaded[u] = load_row<V>(op, offset, rows.step, i + u * rows.width);
#pragma unroll
          for (int u = 0; u < k_under_way; ++u)
            op.take(total, widened(loaded[u]), (i + u * rows.width) * V);
        }
      }
      for (; i < vectors; i += rows.width)
        op.take(total, widened(load_row<V>(op, offset, rows.step, i)), i * V);
      total = join_group(total, rows.width, [&op](const auto& a, const auto& b) { return op.join(a, b); });
    }
    const auto told = op.finish(row, offset, total, group.lane == 0);
    if constexpr (R::k_writes) {
      for (std::int64_t i = group.lane; i < vectors; i += rows.width)
        store_row<V>(op, told, widened(load_row<V>(op, offset, rows.step, i)), offset, rows.step, i);
    }
  }
}

/// What is left to do of a row once a group's threads have it in registers, vector p in `kept[p]`.
template <int V, int P, class R, class Kept>
__device__ void finish_in_registers(
    const R& op, Kept (&kept)[P], const Group& group, int width, int vectors, std::int64_t row, std::int64_t offset) {
  auto total = op.start(offset);
#pragma unroll
  for (int p = 0; p < P; ++p)
    op.take(total, widened(kept[p]), (group.lane + p * width) * V);
  total = join_group(total, width, [&op](const auto& a, const auto& b) { return op.join(a, b); });
  const auto write = [&](const auto& told) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (const int i = group.lane + p * width; i < vectors)
        store_row<V>(op, told, widened(kept[p]), offset, 1, i);
    }
  };
  if constexpr (R::k_twice) {
    auto second = op.start_again(total);
#pragma unroll
    for (int p = 0; p < P; ++p)
      op.take_again(second, widened(kept[p]), total, (group.lane + p * width) * V);
    second = join_group(second, width, [&op](const auto& a, const auto& b) { return op.join_again(a, b); });
    write(op.finish(row, offset, total, second, group.lane == 0));
  } else {
    write(op.finish(row, offset, total, group.lane == 0));
  }
}

/// A row lies in the registers of its group: one pass over the memory, with P loads an operand and thread under way.
/// Where a row ends sooner there is R::k_absent, which changes no total.
template <int V, int P, class R>
__global__ void __launch_bounds__(k_group_block, R::blocks_at_least(P* V)) row_in_registers_kernel(R op, Rows rows) {
  start_early();
  using T = typename R::Element;
  using Raw = RowVectors<T, R::k_kept, V>;
  using Kept = std::conditional_t<R::k_changes, RowValues<Compute<T>, R::k_kept, V>, Raw>;
  const Group group(rows.width);
  const auto vectors = static_cast<int>(rows.n / V);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t offset = rows.offset(row);
    Raw loaded[P];
#pragma unroll
    for (int p = 0; p < P; ++p)
      loaded[p] = load_row_or_absent<V>(op, offset, group.lane + p * rows.width, vectors);
    Kept kept[P];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if constexpr (R::k_changes) {
        kept[p] = widened(loaded[p]);
      } else {
        kept[p] = loaded[p];
      }
    }
    finish_in_registers<V>(op, kept, group, rows.width, vectors, row, offset);
  }
}

/// Calls f.operator()<P>() with the number of vectors that each thread of a group keeps of a row in registers; false if
/// they are too many.
template <class F>
bool by_kept_vectors(const Rows& rows, int V, F&& f) {
  const std::int64_t needed = (rows.n / V + rows.width - 1) / rows.width;
  if (needed <= 1)
    f.template operator()<1>();
  else if (needed <= 2)
    f.template operator()<2>();
  else if (needed <= 4)
    f.template operator()<4>();
  else if (needed <= 8)
    f.template operator()<8>();
  return needed <= 8;
}

/// Enqueues an operator that works on rows in registers; false if none can hold these. Throws CudaError naming `name`
/// where the launch is refused.
template <class R>
bool launch_rows_in_registers(const char* name, const R& op, const Rows& rows, cudaStream_t stream) {
  constexpr int V = k_neighbours<typename R::Element>;
  if (rows.count == 0 || rows.n == 0 || !op.in_vectors(rows, V))
    return false;
  const bool launched = by_kept_vectors(
      rows, V, [&]<int P>() { row_in_registers_kernel<V, P><<<rows.blocks(), k_group_block, 0, stream>>>(op, rows); });
  if (launched)
    check_early_launch(name, stream);
  return launched;
}

/// Enqueues the operator over rows. Throws CudaError naming `name` where the launch is refused.
template <class R>
void launch_rows(const char* name, const R& op, const Rows& rows, cudaStream_t stream) {
  if (rows.count == 0 || (!R::k_tells && rows.n == 0))
    return;
  constexpr int V = k_neighbours<typename R::Element>;
  if (rows.n == 0 || !op.in_vectors(rows, V)) {
    row_kernel<1><<<rows.blocks(), k_group_block, 0, stream>>>(op, rows);
    return check_early_launch(name, stream);
  }
  if constexpr (!std::is_void_v<typename R::InRegisters>) {
    if (launch_rows_in_registers(name, typename R::InRegisters(op), rows, stream))
      return;
  }
  row_kernel<V><<<rows.blocks(), k_group_block, 0, stream>>>(op, rows);
  check_early_launch(name, stream);
}

}  // namespace sluice::detail
