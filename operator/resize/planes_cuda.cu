#include <algorithm>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>
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
struct TapTable {
  std::int64_t n = 0, from = 0;
  std::int32_t *first = nullptr, *count = nullptr;
  void* weight = nullptr;  // float, or double

  template <class C>
  __device__ C weight_of(std::int64_t i, int k) const {
    return static_cast<const C*>(weight)[k * n + i];
  }
};

/// An axis, the elements of the table those of the result or, with `turned`, what is resized.
struct TapAxis {
  TapRule rule;
  TapTable table;
  bool turned, wide;  // wide: weights are double
};

// One code for all weights: it is long, and there are few of them.
__global__ void __launch_bounds__(k_group_block) write_taps_kernel(TapAxis rows, TapAxis columns) {
  start_early();
  const Group group(1);
  for (std::int64_t number = group.index; number < rows.table.n + columns.table.n; number += group.count) {
    const bool is_row = number < rows.table.n;
    const TapAxis& of = is_row ? rows : columns;
    const TapRule& rule = of.rule;
    const TapTable& to = of.table;
    const std::int64_t i = is_row ? number : number - rows.table.n;
    TapWindow at;
    std::int64_t begin, end;
    if (of.turned) {
      begin = rule.first_result(i, false);
      end = rule.first_result(i, true);
    } else {
      at = rule.window(i);
      begin = rule.begin(at);
      end = rule.end(at);
    }
    to.first[i] = static_cast<std::int32_t>(begin);
    to.count[i] = static_cast<std::int32_t>(end > begin ? end - begin : 0);
    for (std::int64_t term = begin; term < end; ++term) {
      if (of.turned)
        at = rule.window(term);
      const double weight = rule.weight_of_element<double>(at, of.turned ? i : term);
      const std::int64_t place = (term - begin) * to.n + i;
      if (of.wide)
        static_cast<double*>(to.weight)[place] = weight;
      else
        static_cast<float*>(to.weight)[place] = static_cast<float>(weight);
    }
  }
}

constexpr int k_planes = 8;  // that a thread mixes at once: what it knows of a place serves all of them

/// How threads lie over the results: one a place of `each` planes, 8 or 1.
struct PlanesWalk {
  std::int64_t planes, rows, columns, size;
  int each = 1;
  bool is_narrow;  // all numbers of threads fit into 32 bits
  Divider<std::int32_t> by_rows, by_columns;

  PlanesWalk(std::int64_t all, std::int64_t to_rows, std::int64_t to_columns)
      : planes(all), rows(to_rows), columns(to_columns) {
    constexpr std::int64_t k_threads = 1 << 17;  // what a large GPU has at least to do
    if (all / k_planes * rows * columns >= k_threads)
      each = k_planes;
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

/// Of N planes one after the other.
template <int N, class T>
__device__ void mix(
    const TapTable& rows, const TapTable& columns, const PlanesWalk::Place& at, const T* x, T* y, std::int64_t result) {
  using C = Compute<T>;
  const int down = rows.count[at.row], across = columns.count[at.column];
  const std::int64_t plane = rows.from * columns.from;
  const T* line = x + rows.first[at.row] * columns.from + columns.first[at.column];
  C sums[N] = {};
  for (int k = 0; k < down; ++k, line += columns.from) {
    const C by_row = rows.weight_of<C>(at.row, k);
    for (int j = 0; j < across; ++j) {
      const C by = by_row * columns.weight_of<C>(at.column, j);
      const T* const from = line + j;
#pragma unroll
      for (int p = 0; p < N; ++p)
        sums[p] += by * static_cast<C>(from[p * plane]);
    }
  }
#pragma unroll
  for (int p = 0; p < N; ++p)
    y[p * result] = static_cast<T>(sums[p]);
}

template <class T>
__global__ void __launch_bounds__(k_group_block)
    mix_planes_kernel(PlanesWalk walk, TapTable rows, TapTable columns, const T* x, T* y) {
  start_early();
  const Group group(1);
  const std::int64_t plane = rows.from * columns.from, result = walk.rows * walk.columns;
  for (std::int64_t i = group.index; i < walk.size; i += group.count) {
    const auto at = walk.place(i);
    const T* const from = x + at.plane * plane;
    T* const to = y + at.plane * result + at.row * walk.columns + at.column;
    if (at.planes == k_planes) {
      mix<k_planes>(rows, columns, at, from, to, result);
    } else {
      for (int p = 0; p < at.planes; ++p)
        mix<1>(rows, columns, at, from + p * plane, to + p * result, result);
    }
  }
}

/// Result i of an axis is element i * in / out.
struct NearestAxis {
  std::int64_t in, out;
  bool is_narrow;
  Divider<std::int32_t> by_out;

  explicit NearestAxis(const TapRule& rule)
      : in(rule.in),
        out(rule.out),
        is_narrow(in * out < std::numeric_limits<std::int32_t>::max() / 2),
        by_out(is_narrow ? out : 1) {}
  __device__ std::int64_t place(std::int64_t i) const {
    return is_narrow ? by_out.divide(static_cast<std::int32_t>(i * in)) : i * in / out;
  }
};

// Elements as they are, of any type.
template <class U>
__global__ void __launch_bounds__(k_group_block)
    take_planes_kernel(PlanesWalk walk, NearestAxis rows, NearestAxis columns, const U* x, U* y) {
  start_early();
  const Group group(1);
  const std::int64_t plane = rows.in * columns.in, result = walk.rows * walk.columns;
  for (std::int64_t i = group.index; i < walk.size; i += group.count) {
    const auto at = walk.place(i);
    const U* const from = x + at.plane * plane + rows.place(at.row) * columns.in + columns.place(at.column);
    U* const to = y + at.plane * result + at.row * walk.columns + at.column;
    if (at.planes == k_planes) {
      U taken[k_planes];
#pragma unroll
      for (int p = 0; p < k_planes; ++p)
        taken[p] = from[p * plane];
#pragma unroll
      for (int p = 0; p < k_planes; ++p)
        to[p * result] = taken[p];
    } else {
#pragma unroll 1
      for (int p = 0; p < at.planes; ++p)
        to[p * result] = from[p * plane];
    }
  }
}

/// The tables of both axes in one piece of memory.
class Tables {
 public:
  /// Of rules that go from x to y, and with `turned` back.
  Tables(const KernelCall& call, const TapRule& down, const TapRule& across, bool turned, bool wide)
      : rows_(axis(down, turned, wide)),
        columns_(axis(across, turned, wide)),
        scratch_(call.queue, bytes_of(rows_) + bytes_of(columns_)) {
    place(columns_, place(rows_, scratch_.as<char>()));
    const cudaStream_t stream = stream_of(call.queue);
    const std::int64_t elements = rows().n + columns().n;
    write_taps_kernel<<<blocks_for_groups(elements, 1), k_group_block, 0, stream>>>(rows_, columns_);
    check_early_launch(call.op.name, stream);
  }

  const TapTable& rows() const noexcept { return rows_.table; }
  const TapTable& columns() const noexcept { return columns_.table; }

 private:
  static TapAxis axis(const TapRule& rule, bool turned, bool wide) {
    return {rule, {turned ? rule.in : rule.out, turned ? rule.out : rule.in}, turned, wide};
  }
  static std::size_t weights_of(const TapAxis& of) {
    const std::int64_t most = of.turned ? of.rule.most_of_element() : of.rule.most_of_result();
    return static_cast<std::size_t>(of.table.n * most) * (of.wide ? sizeof(double) : sizeof(float));
  }
  // Weights of 8 bytes lie first, and what is behind an axis is aligned to them too.
  static std::size_t bytes_of(const TapAxis& of) {
    return weights_of(of) + static_cast<std::size_t>(of.table.n) * 2 * sizeof(std::int32_t);
  }
  static char* place(TapAxis& of, char* memory) {
    of.table.weight = memory;
    of.table.first = reinterpret_cast<std::int32_t*>(memory + weights_of(of));
    of.table.count = of.table.first + of.table.n;
    return memory + bytes_of(of);
  }

  TapAxis rows_, columns_;
  Workspace scratch_;
};

template <class T>
void mix_planes(const KernelCall& call, const TapRule& down, const TapRule& across, bool turned) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Tables tables(call, down, across, turned, y.dtype == DType::float64);
  const PlanesWalk walk(y.shape[0] * y.shape[1], y.shape[2], y.shape[3]);
  const cudaStream_t stream = stream_of(call.queue);
  mix_planes_kernel<<<blocks_for_groups(walk.size, 1), k_group_block, 0, stream>>>(
      walk, tables.rows(), tables.columns(), x.as<const T>(), y.as<T>());
  check_early_launch(call.op.name, stream);
}

void take_planes(const KernelCall& call, const TapRule& down, const TapRule& across) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const PlanesWalk walk(y.shape[0] * y.shape[1], y.shape[2], y.shape[3]);
  const cudaStream_t stream = stream_of(call.queue);
  by_element_size(size_of(x.dtype), [&]<class U>() {
    take_planes_kernel<<<blocks_for_groups(walk.size, 1), k_group_block, 0, stream>>>(
        walk, NearestAxis(down), NearestAxis(across), x.as<const U>(), y.as<U>());
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
