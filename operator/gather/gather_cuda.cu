#include <cstring>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/element_size.h>
#include <sluice/operator/gather/resolve_cuda.cuh>
#include <sluice/operator/group.cuh>

namespace sluice::detail {

namespace {

// One row of `units` units for each index; units are as wide as sizes and addresses allow.
template <class U>
__global__ void __launch_bounds__(k_group_block)
    take_kernel(const U* x, ResolvedIndices indices, TakeLayout at, std::int64_t units, int width, U* y) {
  start_early();
  const Group group(width);
  for (std::int64_t row = group.index; row < at.outer * at.indices; row += group.count) {
    const std::int64_t entry = indices.at(row % at.indices, group.lane == 0);
    const U* from = x + (row / at.indices * at.n + (entry < 0 ? 0 : entry)) * units;
    for (std::int64_t i = group.lane; i < units; i += width)
      y[row * units + i] = entry < 0 ? U{} : from[i];
  }
}

template <class U>
__global__ void __launch_bounds__(k_group_block) pick_kernel(const U* x, ResolvedIndices indices, AxisLayout at, U* y) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < at.outer * at.inner; i += group.count) {
    const std::int64_t entry = indices.at(i, true);
    y[i] = entry < 0 ? U{0} : x[(i / at.inner * at.n + entry) * at.inner + i % at.inner];
  }
}

template <class U>
__global__ void __launch_bounds__(k_group_block)
    pick_backward_kernel(const U* dy, ResolvedIndices indices, AxisLayout at, U* dx) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < at.outer * at.n * at.inner; i += group.count) {
    const std::int64_t row = i / (at.n * at.inner) * at.inner + i % at.inner;
    const std::int64_t place = i / at.inner % at.n;
    dx[i] = indices.at(row, place == 0) == place ? dy[row] : U{0};
  }
}

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

cudaStream_t stream_of(const KernelCall& call) {
  return static_cast<cudaStream_t>(call.queue.stream());
}

template <class U>
void take_units(const KernelCall& call, const TakeLayout& at, std::int64_t units) {
  const int width = units < 8 ? 1 : units <= 256 ? k_warp : k_group_block;
  const unsigned blocks = blocks_for_groups(at.outer * at.indices, width);
  take_kernel<<<blocks, k_group_block, 0, stream_of(call)>>>(
      call.inputs[0].as<const U>(),
      ResolvedIndices(call, call.inputs[1], gather_axis(call, call.inputs[0])),
      at,
      units,
      width,
      call.outputs[0].as<U>());
}

}  // namespace

void take_gpu(const KernelCall& call) {
  const TakeLayout at = take_layout(call.outputs[0].shape, call.inputs[1].shape, gather_axis(call, call.inputs[0]));
  if (call.outputs[0].size == 0)
    return;
  const std::int64_t bytes = at.inner * static_cast<std::int64_t>(size_of(call.inputs[0].dtype));
  const auto alignment = reinterpret_cast<std::uintptr_t>(call.inputs[0].data) |
                         reinterpret_cast<std::uintptr_t>(call.outputs[0].data) | static_cast<std::uintptr_t>(bytes);
  if (alignment % sizeof(uint4) == 0) {
    take_units<uint4>(call, at, bytes / static_cast<std::int64_t>(sizeof(uint4)));
  } else {
    by_element_size(size_of(call.inputs[0].dtype), [&]<class U>() { take_units<U>(call, at, at.inner); });
  }
  check_early_launch("take", stream_of(call));
}

void one_hot_gpu(const KernelCall& call) {
  const std::int64_t depth = call.attributes.as<OneHotAttributes>().depth;
  const TensorView& indices = call.inputs[0];
  ErrorWord* errors = call.queue.error_word();
  if (indices.size == 0)
    return;
  std::uint64_t one = 0;
  by_dtype(call.outputs[0].dtype, [&]<class T>() {
    const T value = static_cast<T>(1.0f);
    std::memcpy(&one, &value, sizeof value);
  });
  by_element_size(size_of(call.outputs[0].dtype), [&]<class U>() {
    one_hot_kernel<<<blocks_for_groups(indices.size * depth, 1), k_group_block, 0, stream_of(call)>>>(
        indices.data, indices.dtype, indices.size, depth, static_cast<U>(one), errors, call.outputs[0].as<U>());
  });
  check_early_launch("one_hot", stream_of(call));
}

void pick_gpu(const KernelCall& call) {
  const AxisLayout at =
      axis_layout(call.inputs[0].shape, static_cast<int>(call.attributes.as<GatherAttributes>().axis));
  if (call.outputs[0].size == 0)
    return;
  by_element_size(size_of(call.inputs[0].dtype), [&]<class U>() {
    pick_kernel<<<blocks_for_groups(call.outputs[0].size, 1), k_group_block, 0, stream_of(call)>>>(
        call.inputs[0].as<const U>(),
        ResolvedIndices(call, call.inputs[1], gather_axis(call, call.inputs[0])),
        at,
        call.outputs[0].as<U>());
  });
  check_early_launch("pick", stream_of(call));
}

void pick_backward_gpu(const KernelCall& call) {
  const AxisLayout at =
      axis_layout(call.outputs[0].shape, static_cast<int>(call.attributes.as<GatherAttributes>().axis));
  if (call.outputs[0].size == 0)
    return;
  by_element_size(size_of(call.outputs[0].dtype), [&]<class U>() {
    pick_backward_kernel<<<blocks_for_groups(call.outputs[0].size, 1), k_group_block, 0, stream_of(call)>>>(
        call.inputs[1].as<const U>(),
        ResolvedIndices(call, call.inputs[0], gather_axis(call, call.outputs[0])),
        at,
        call.outputs[0].as<U>());
  });
  check_early_launch("pick_backward", stream_of(call));
}

}  // namespace sluice::detail
