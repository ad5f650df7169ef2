#include <cstdint>
#include <cstring>
#include <limits>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/gather/last_positions.cuh>
#include <sluice/operator/gather/resolve_cuda.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/row_kernel.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

// Rows of `units` units, which are as wide as sizes and addresses allow. Positions that are not the last of their entry
// do not count where `last` has those.
struct RowWalk {
  TakeLayout at;
  std::int64_t units;
  int width;
  LastOf last;

  __device__ std::int64_t position(std::int64_t row) const { return at.outer == 1 ? row : row % at.indices; }
  __device__ bool counts(std::int64_t position, std::int64_t entry) const {
    return entry >= 0 && last.is(entry, position);
  }
  /// Of the array that is taken from.
  __device__ std::int64_t row_of(std::int64_t row, std::int64_t entry) const {
    return at.outer == 1 ? entry : row / at.indices * at.n + entry;
  }
};

template <class U>
__global__ void __launch_bounds__(k_group_block)
    take_kernel(const U* x, const __grid_constant__ ResolvedIndices indices, RowWalk walk, U* y) {
  start_early();
  const Group group(walk.width);
  for (std::int64_t row = group.index; row < walk.at.outer * walk.at.indices; row += group.count) {
    const std::int64_t position = walk.position(row), entry = indices.at(position, group.lane == 0);
    const bool counts = walk.counts(position, entry);
    const U* from = x + (counts ? walk.row_of(row, entry) : 0) * walk.units;
    for (std::int64_t i = group.lane; i < walk.units; i += walk.width)
      y[row * walk.units + i] = counts ? from[i] : U{};
  }
}

// Single elements that one axis' numbers name, several a thread: what these load is under way together.
constexpr int k_elements = 4;

struct Elements {
  std::int64_t count;
  LastOf last;

  unsigned blocks() const { return blocks_for_groups((count + k_elements - 1) / k_elements, 1); }
  __device__ std::int64_t first() const {
    return static_cast<std::int64_t>(blockIdx.x) * k_group_block * k_elements + threadIdx.x;
  }
  __device__ std::int64_t step() const { return static_cast<std::int64_t>(gridDim.x) * k_group_block * k_elements; }
  /// Of positions `first`, k_group_block behind, .. : -1 where there is none, or another is the last of its entry.
  __device__ void find(
      const ResolvedIndices& indices, std::int64_t first, bool reports, std::int64_t (&entries)[k_elements]) const {
    indices.find_on_axis(first, k_group_block, count, reports, entries);
#pragma unroll
    for (int k = 0; k < k_elements; ++k) {
      if (entries[k] >= 0 && !last.is(entries[k], first + k * k_group_block))
        entries[k] = -1;
    }
  }
};

template <class U>
__global__ void __launch_bounds__(k_group_block)
    take_elements_kernel(const U* x, const __grid_constant__ ResolvedIndices indices, Elements walk, U* y) {
  start_early();
  for (std::int64_t first = walk.first(); first < walk.count; first += walk.step()) {
    std::int64_t entries[k_elements];
    walk.find(indices, first, true, entries);
    U taken[k_elements];
#pragma unroll
    for (int k = 0; k < k_elements; ++k)
      taken[k] = entries[k] < 0 ? U{} : x[entries[k]];
#pragma unroll
    for (int k = 0; k < k_elements; ++k) {
      if (const std::int64_t i = first + k * k_group_block; i < walk.count)
        y[i] = taken[k];
    }
  }
}

// Which unit of an array stands at each place behind a replacement: each is written once, in order, and what is read
// lies side by side but for the values.
struct Replacing {
  TakeLayout at;
  std::int64_t units, size;
  LastOf last;
  bool narrow;

  Replacing(const TakeLayout& layout, std::int64_t of_row, const LastOf& positions)
      : at(layout), units(of_row), size(layout.outer * layout.n * of_row), last(positions) {
    narrow = size <= std::numeric_limits<std::uint32_t>::max();
  }

  /// Null where it is a zero, as is all of x or of values that is null.
  template <class U>
  __device__ const U* from(const U* x, const U* values, std::int64_t i) const {
    const std::int64_t row = units == 1 ? i : quotient(i, units, narrow);
    const std::int64_t outer = at.outer == 1 ? 0 : quotient(row, at.n, narrow);
    const std::int64_t position = last.of(row - outer * at.n);
    if (position < 0)
      return x == nullptr ? nullptr : x + i;
    return values == nullptr ? nullptr : values + ((outer * at.indices + position - row) * units + i);
  }
};

template <class U>
__global__ void __launch_bounds__(k_group_block) replace_kernel(const U* x, const U* values, Replacing walk, U* y) {
  start_early();
  const Elements steps{walk.size, {}};
  for (std::int64_t first = steps.first(); first < walk.size; first += steps.step()) {
    const U* from[k_elements];
#pragma unroll
    for (int k = 0; k < k_elements; ++k)
      from[k] = walk.from(x, values, min(first + k * k_group_block, walk.size - 1));
    U taken[k_elements];
#pragma unroll
    for (int k = 0; k < k_elements; ++k)
      taken[k] = from[k] == nullptr ? U{} : *from[k];
#pragma unroll
    for (int k = 0; k < k_elements; ++k) {
      if (const std::int64_t i = first + k * k_group_block; i < walk.size)
        y[i] = taken[k];
    }
  }
}

// The entry that a row's index names, or -1: of one that is ignored, which nobody reports, or of none.
__device__ std::int64_t picked_at(
    const ResolvedIndices& indices, const IgnoredLabel& ignored, std::int64_t i, bool reports) {
  if (ignored.is_given && ignored.is(load_index(indices.place.data, indices.place.dtype, i)))
    return -1;
  return indices.at(i, reports);
}

template <class U>
__global__ void __launch_bounds__(k_group_block) pick_kernel(
    const U* x, const __grid_constant__ ResolvedIndices indices, IgnoredLabel ignored, AxisLayout at, U flipped, U* y) {
  start_early();
  const Group group(1);
  const std::int64_t size = at.outer * at.inner;
  const bool narrow = size <= std::numeric_limits<std::uint32_t>::max();
  for (std::int64_t i = group.index; i < size; i += group.count) {
    const std::int64_t entry = picked_at(indices, ignored, i, true), outer = quotient(i, at.inner, narrow);
    y[i] = entry < 0 ? U{0} : x[(outer * at.n + entry) * at.inner + (i - outer * at.inner)] ^ flipped;
  }
}

// Zeros, and at one place of each row its gradient.
template <class U>
struct PickedRow : RowOperands<U, 0, true> {
  static constexpr bool k_joined = false;
  struct Told {
    std::int64_t entry;
    U grad;
  };
  const U* dy;
  ResolvedIndices indices;
  IgnoredLabel ignored;
  U flipped;

  PickedRow(const KernelCall& call, const ResolvedIndices& named, const PickRule& rule)
      : dy(call.inputs[1].as<const U>()), indices(named), ignored(rule.ignored), flipped(rule.flipped_bits<U>()) {
    this->out = call.outputs[0].as<U>();
  }
  __device__ int start(std::int64_t) const { return 0; }
  __device__ Told finish(std::int64_t row, std::int64_t, int, bool once) const {
    return {picked_at(indices, ignored, row, once), static_cast<U>(dy[row] ^ flipped)};
  }
  template <class Values>
  __device__ U give(const Told& told, const Values&, int, std::int64_t i) const {
    return i == told.entry ? told.grad : U{0};
  }
};

template <class U>
__global__ void __launch_bounds__(k_group_block) one_hot_kernel(
    const void* indices, DType dtype, std::int64_t size, std::int64_t depth, U one, ErrorWord* errors, U* y) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < size * depth; i += group.count) {
    const std::int64_t index = load_index(indices, dtype, i / depth), place = i % depth;
    if (place == 0 && (index < 0 || index >= depth))
      report_index(errors, index, depth);
    y[i] = index == place ? one : U{0};
  }
}

/// Calls f.operator()<U>(units of a row) with the widest type that fits addresses and rows of all arrays.
template <class F, class... Views>
void by_units(const TakeLayout& at, const F& f, const TensorView& a, const Views&... others) {
  const std::int64_t bytes = at.inner * static_cast<std::int64_t>(size_of(a.dtype));
  const auto alignment =
      (reinterpret_cast<std::uintptr_t>(a.data) | ... | reinterpret_cast<std::uintptr_t>(others.data)) |
      static_cast<std::uintptr_t>(bytes);
  if (alignment % sizeof(uint4) == 0)
    f.template operator()<uint4>(bytes / static_cast<std::int64_t>(sizeof(uint4)));
  else
    by_element_size(size_of(a.dtype), [&]<class U>() { f.template operator()<U>(at.inner); });
}

RowWalk walk_of(const TakeLayout& at, std::int64_t units, const LastOf& last) {
  return {at, units, units < 8 ? 1 : units <= 256 ? k_warp : k_group_block, last};
}

unsigned blocks_of(const RowWalk& walk) {
  return blocks_for_groups(walk.at.outer * walk.at.indices, walk.width);
}

// Are rows single elements, which numbers of one axis name?
bool is_of_elements(const Taking& taking, std::int64_t units) {
  return units == 1 && taking.at.outer == 1 && taking.place.axes == 1;
}

void take_rows(
    const KernelCall& call, const Taking& taking, const TensorView& x, const LastOf& last, const TensorView& y) {
  const auto launch = [&]<class U>(std::int64_t units) {
    if (is_of_elements(taking, units)) {
      const Elements walk{taking.place.count, last};
      take_elements_kernel<<<walk.blocks(), k_group_block, 0, stream_of(call.queue)>>>(
          x.as<const U>(), ResolvedIndices(call, taking.place), walk, y.as<U>());
      return check_early_launch(call.op.name, stream_of(call.queue));
    }
    const RowWalk walk = walk_of(taking.at, units, last);
    take_kernel<<<blocks_of(walk), k_group_block, 0, stream_of(call.queue)>>>(
        x.as<const U>(), ResolvedIndices(call, taking.place), walk, y.as<U>());
    check_early_launch(call.op.name, stream_of(call.queue));
  };
  by_units(taking.at, launch, x, y);
}

/// Rows of x, in place of those that are named values; zeros, where one of them is null.
void replace_rows(
    const KernelCall& call,
    const Taking& taking,
    const TensorView* x,
    const TensorView* values,
    const LastOf& last,
    const TensorView& y) {
  const auto launch = [&]<class U>(std::int64_t units) {
    const Replacing walk(taking.at, units, last);
    const auto begin = [](const TensorView* view) { return view == nullptr ? nullptr : view->as<const U>(); };
    replace_kernel<<<Elements{walk.size, {}}.blocks(), k_group_block, 0, stream_of(call.queue)>>>(
        begin(x), begin(values), walk, y.as<U>());
    check_early_launch(call.op.name, stream_of(call.queue));
  };
  by_units(taking.at, launch, y, x == nullptr ? y : *x, values == nullptr ? y : *values);
}

void copy_all(const KernelCall& call, const TensorView& from, const TensorView& to) {
  const std::size_t bytes = static_cast<std::size_t>(to.size) * size_of(to.dtype);
  cuda::cuda_check(
      cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToDevice, stream_of(call.queue)), "cudaMemcpyAsync");
}

}  // namespace

void take_gpu(const KernelCall& call, IndexKind kind) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const Taking taking = taking_of(kind, call, call.inputs[1], x.shape);
  x.contiguous ? take_rows(call, taking, x, {}, y) : take_strided_gpu(call, taking);
}

void put_gpu(const KernelCall& call, IndexKind kind) {
  const TensorView &values = call.inputs[2], &y = call.outputs[0];
  if (y.size == 0)
    return;
  if (values.size == 0)
    return copy_all(call, call.inputs[0], y);
  const Taking taking = taking_of(kind, call, call.inputs[1], y.shape);
  if (kind == IndexKind::along && put_along_rows_gpu(call, taking))
    return;
  replace_rows(call, taking, &call.inputs[0], &values, LastPositions(call, taking).at(), y);
}

void scatter_nd_gpu(const KernelCall& call) {
  const TensorView &values = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  if (values.size == 0) {
    const std::size_t bytes = static_cast<std::size_t>(y.size) * size_of(y.dtype);
    return cuda::cuda_check(cudaMemsetAsync(y.data, 0, bytes, stream_of(call.queue)), "cudaMemsetAsync");
  }
  const Taking taking = taking_of(IndexKind::tuple, GatherAttributes{}, call.inputs[1], y.shape);
  replace_rows(call, taking, nullptr, &values, LastPositions(call, taking).at(), y);
}

void put_backward_gpu(const KernelCall& call, IndexKind kind) {
  const TensorView &dy = call.inputs[1], &dx = call.outputs[0], &dvalues = call.outputs[1];
  if (dx.size == 0)
    return;
  if (dvalues.size == 0)
    return copy_all(call, dy, dx);
  const Taking taking = taking_of(kind, call, call.inputs[0], dy.shape);
  const LastPositions last(call, taking);
  replace_rows(call, taking, &dy, nullptr, last.at(), dx);
  take_rows(call, taking, dy, last.at(), dvalues);
}

void one_hot_gpu(const KernelCall& call) {
  const std::int64_t depth = call.attributes.as<OneHotAttributes>().depth;
  const TensorView& indices = call.inputs[0];
  ErrorWord* errors = call.queue.error_word();
  if (indices.size == 0)
    return;
  std::uint64_t one = 0;
  by_any_dtype(call.outputs[0].dtype, [&]<class T>() {
    const T value = static_cast<T>(1.0f);
    std::memcpy(&one, &value, sizeof value);
  });
  by_element_size(size_of(call.outputs[0].dtype), [&]<class U>() {
    one_hot_kernel<<<blocks_for_groups(indices.size * depth, 1), k_group_block, 0, stream_of(call.queue)>>>(
        indices.data, indices.dtype, indices.size, depth, static_cast<U>(one), errors, call.outputs[0].as<U>());
  });
  check_early_launch("one_hot", stream_of(call.queue));
}

void pick_gpu(const KernelCall& call, const PickRule& rule) {
  const AxisLayout at = axis_layout(call.inputs[0].shape, static_cast<int>(rule.axis));
  if (call.outputs[0].size == 0)
    return;
  by_element_size(size_of(call.inputs[0].dtype), [&]<class U>() {
    pick_kernel<<<blocks_for_groups(call.outputs[0].size, 1), k_group_block, 0, stream_of(call.queue)>>>(
        call.inputs[0].as<const U>(),
        ResolvedIndices(call, call.inputs[1], rule.of(call.inputs[0])),
        rule.ignored,
        at,
        rule.flipped_bits<U>(),
        call.outputs[0].as<U>());
  });
  check_early_launch(call.op.name, stream_of(call.queue));
}

void pick_backward_gpu(const KernelCall& call, const PickRule& rule) {
  const Rows rows(axis_layout(call.outputs[0].shape, static_cast<int>(rule.axis)));
  const ResolvedIndices indices(call, call.inputs[0], rule.of(call.outputs[0]));
  by_element_size(size_of(call.outputs[0].dtype), [&]<class U>() {
    launch_rows(call.op.name, PickedRow<U>(call, indices, rule), rows, stream_of(call.queue));
  });
}

}  // namespace sluice::detail
