#include <algorithm>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/element_size.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/resize/planes.h>
#include <sluice/operator/workspace.h>

// Resized planes: a first kernel writes down what each element along an axis is mixed of, a second one mixes. A
// gradient is the same with what each element is in: its sums have an order, and nothing is added to memory.
namespace sluice::detail {

namespace {

/// Element i of an axis is mixed of places [first[i], first[i] + count[i]), of weights [k * n + i].
template <class C>
struct TapTable {
  std::int64_t n = 0, from = 0;
  std::int32_t *first = nullptr, *count = nullptr;
  C* weight = nullptr;

  __device__ void put(std::int64_t i, std::int64_t begin, std::int64_t terms) const {
    first[i] = static_cast<std::int32_t>(begin);
    count[i] = static_cast<std::int32_t>(terms);
  }
};

// What result i is mixed of.
template <class C>
__device__ void write_result(const TapRule& rule, const TapTable<C>& to, std::int64_t i) {
  const TapWindow at = rule.window(i);
  const std::int64_t begin = rule.begin(at), end = rule.end(at);
  to.put(i, begin, end - begin);
  for (std::int64_t place = begin; place < end; ++place)
    to.weight[(place - begin) * to.n + i] = rule.weight_of_element<C>(at, place);
}

// What element i is in.
template <class C>
__device__ void write_element(const TapRule& rule, const TapTable<C>& to, std::int64_t i) {
  const std::int64_t begin = rule.first_result(i, false), end = rule.first_result(i, true);
  to.put(i, begin, end > begin ? end - begin : 0);
  for (std::int64_t result = begin; result < end; ++result)
    to.weight[(result - begin) * to.n + i] = rule.weight_of_element<C>(rule.window(result), i);
}

template <class C>
__global__ void __launch_bounds__(k_group_block)
    write_taps_kernel(TapRule rows, TapRule columns, bool turned, TapTable<C> of_rows, TapTable<C> of_columns) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < of_rows.n + of_columns.n; i += group.count) {
    const bool is_row = i < of_rows.n;
    const TapRule& rule = is_row ? rows : columns;
    const TapTable<C>& to = is_row ? of_rows : of_columns;
    const std::int64_t element = is_row ? i : i - of_rows.n;
    if (turned)
      write_element(rule, to, element);
    else
      write_result(rule, to, element);
  }
}

constexpr int k_planes = 8;  // that a thread mixes at once: what it knows of a place serves all of them

/// How threads lie over the results: one a place of `each` planes.
struct PlanesWalk {
  std::int64_t planes, rows, columns, size;
  int each = 1;
  bool is_narrow;  // all numbers of threads fit into 32 bits
  Divider<std::int32_t> by_rows, by_columns;

  PlanesWalk(std::int64_t all, std::int64_t to_rows, std::int64_t to_columns)
      : planes(all), rows(to_rows), columns(to_columns) {
    constexpr std::int64_t k_threads = 1 << 18;  // what fills a large GPU
    while (each < k_planes && all * rows * columns / (2 * each) >= k_threads)
      each *= 2;
    size = (all + each - 1) / each * rows * columns;
    is_narrow = size < std::numeric_limits<std::int32_t>::max() / 2;
    by_rows = Divider<std::int32_t>(is_narrow ? rows : 1);
    by_columns = Divider<std::int32_t>(is_narrow ? columns : 1);
  }

  struct Place {
    std::int64_t plane;  // the first
    std::int64_t row, column;
    int planes;
  };
  __device__ Place place(std::int64_t i) const {
    Place at;
    std::int64_t chunk;
    if (is_narrow) {
      const auto narrow = static_cast<std::int32_t>(i);
      const std::int32_t line = by_columns.divide(narrow), group = by_rows.divide(line);
      at.column = narrow - line * by_columns.value();
      at.row = line - group * by_rows.value();
      chunk = group;
    } else {
      at.column = i % columns;
      at.row = i / columns % rows;
      chunk = i / columns / rows;
    }
    at.plane = chunk * each;
    at.planes = static_cast<int>(planes - at.plane < each ? planes - at.plane : each);
    return at;
  }
};

/// Calls f(p) for the first `count` of the planes that a thread has; the loop is a constant's.
template <class F>
__device__ void each_plane(int count, F&& f) {
  if (count == k_planes) {
#pragma unroll
    for (int p = 0; p < k_planes; ++p)
      f(p);
  } else {
#pragma unroll
    for (int p = 0; p < k_planes - 1; ++p) {
      if (p < count)
        f(p);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(k_group_block)
    mix_planes_kernel(PlanesWalk walk, TapTable<Compute<T>> rows, TapTable<Compute<T>> columns, const T* x, T* y) {
  start_early();
  using C = Compute<T>;
  const Group group(1);
  const std::int64_t plane = rows.from * columns.from, result = walk.rows * walk.columns;
  for (std::int64_t i = group.index; i < walk.size; i += group.count) {
    const auto place = walk.place(i);
    const int down = rows.count[place.row], across = columns.count[place.column];
    const T* line = x + place.plane * plane + rows.first[place.row] * columns.from + columns.first[place.column];
    C sums[k_planes] = {};
    for (int k = 0; k < down; ++k, line += columns.from) {
      const C by_row = rows.weight[k * rows.n + place.row];
      for (int j = 0; j < across; ++j) {
        const C by = by_row * columns.weight[j * columns.n + place.column];
        const T* const from = line + j;
        each_plane(place.planes, [&](int p) { sums[p] += by * static_cast<C>(from[p * plane]); });
      }
    }
    T* const to = y + place.plane * result + place.row * walk.columns + place.column;
    each_plane(place.planes, [&](int p) { to[p * result] = static_cast<T>(sums[p]); });
  }
}

// Elements as they are, of any type.
template <class U>
__global__ void __launch_bounds__(k_group_block)
    take_planes_kernel(PlanesWalk walk, TapTable<float> rows, TapTable<float> columns, const U* x, U* y) {
  start_early();
  const Group group(1);
  const std::int64_t plane = rows.from * columns.from, result = walk.rows * walk.columns;
  for (std::int64_t i = group.index; i < walk.size; i += group.count) {
    const auto place = walk.place(i);
    const U* const from = x + place.plane * plane + rows.first[place.row] * columns.from + columns.first[place.column];
    U* const to = y + place.plane * result + place.row * walk.columns + place.column;
    U taken[k_planes];
    each_plane(place.planes, [&](int p) { taken[p] = from[p * plane]; });
    each_plane(place.planes, [&](int p) { to[p * result] = taken[p]; });
  }
}

/// The tables of both axes in one piece of memory.
template <class C>
class Tables {
 public:
  /// Of `rule`s that go from x to y, and with `turned` back.
  Tables(const KernelCall& call, const TapRule& down, const TapRule& across, bool turned)
      : rows(empty(down, turned)),
        columns(empty(across, turned)),
        scratch_(call.queue, bytes_of(rows, most(down, turned)) + bytes_of(columns, most(across, turned))) {
    char* const behind = place(rows, scratch_.as<char>(), most(down, turned));
    place(columns, behind, most(across, turned));
    const cudaStream_t stream = stream_of(call.queue);
    write_taps_kernel<<<blocks_for_groups(rows.n + columns.n, 1), k_group_block, 0, stream>>>(
        down, across, turned, rows, columns);
    check_early_launch(call.op.name, stream);
  }

  TapTable<C> rows, columns;

 private:
  static TapTable<C> empty(const TapRule& rule, bool turned) {
    return {turned ? rule.in : rule.out, turned ? rule.out : rule.in};
  }
  static std::int64_t most(const TapRule& rule, bool turned) {
    return turned ? rule.most_of_element() : rule.most_of_result();
  }
  // Weights of 8 bytes lie first, and what is behind an axis is aligned to them too.
  static std::size_t bytes_of(const TapTable<C>& table, std::int64_t terms) {
    return static_cast<std::size_t>(table.n) * (static_cast<std::size_t>(terms) * sizeof(C) + 2 * sizeof(std::int32_t));
  }
  static char* place(TapTable<C>& table, char* memory, std::int64_t terms) {
    table.weight = reinterpret_cast<C*>(memory);
    table.first = reinterpret_cast<std::int32_t*>(table.weight + table.n * terms);
    table.count = table.first + table.n;
    return memory + bytes_of(table, terms);
  }

  Workspace scratch_;
};

template <class T>
void mix_planes(const KernelCall& call, const TapRule& down, const TapRule& across, bool turned) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Tables<Compute<T>> tables(call, down, across, turned);
  const PlanesWalk walk(y.shape[0] * y.shape[1], y.shape[2], y.shape[3]);
  const cudaStream_t stream = stream_of(call.queue);
  mix_planes_kernel<<<blocks_for_groups(walk.size, 1), k_group_block, 0, stream>>>(
      walk, tables.rows, tables.columns, x.as<const T>(), y.as<T>());
  check_early_launch(call.op.name, stream);
}

void take_planes(const KernelCall& call, const TapRule& down, const TapRule& across) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Tables<float> tables(call, down, across, false);
  const PlanesWalk walk(y.shape[0] * y.shape[1], y.shape[2], y.shape[3]);
  const cudaStream_t stream = stream_of(call.queue);
  by_element_size(size_of(x.dtype), [&]<class U>() {
    take_planes_kernel<<<blocks_for_groups(walk.size, 1), k_group_block, 0, stream>>>(
        walk, tables.rows, tables.columns, x.as<const U>(), y.as<U>());
  });
  check_early_launch(call.op.name, stream);
}

}  // namespace

void resize_planes_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const auto& how = call.attributes.as<PlanesAttributes>();
  if (y.size == 0)
    return;
  const TapRule down = how.rule(x.shape[2], y.shape[2]), across = how.rule(x.shape[3], y.shape[3]);
  if (how.kind() == TapKind::nearest)
    return take_planes(call, down, across);
  by_floating(x.dtype, [&]<class T>() { mix_planes<T>(call, down, across, false); });
}

void resize_planes_backward_gpu(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &dx = call.outputs[0];
  const auto& how = call.attributes.as<PlanesAttributes>();
  if (dx.size == 0)
    return;
  const TapRule down = how.rule(dx.shape[2], dy.shape[2]), across = how.rule(dx.shape[3], dy.shape[3]);
  by_floating(dx.dtype, [&]<class T>() { mix_planes<T>(call, down, across, true); });
}

}  // namespace sluice::detail
