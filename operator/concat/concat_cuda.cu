#include <algorithm>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/concat/kernels.h>
#include <sluice/operator/element_size.h>
#include <sluice/operator/group.cuh>

namespace sluice::detail {

namespace {

constexpr int k_table = 64;  // arrays a launch

/// Arrays as rows of units; `to` is where each one's columns begin in a row of the result.
struct ConcatTable {
  struct Source {
    const void* data;
    std::int64_t width;
    std::int64_t to;
  };
  Source sources[k_table];
  std::int64_t rows = 0;
  std::int64_t pitch = 0;
};

// blockIdx.y is the array.
template <class U>
__global__ void __launch_bounds__(k_group_block) concat_kernel(const __grid_constant__ ConcatTable table, U* out) {
  const ConcatTable::Source& source = table.sources[blockIdx.y];
  const U* from = static_cast<const U*>(source.data);
  const Group group(1);
  for (std::int64_t i = group.index; i < table.rows * source.width; i += group.count)
    out[i / source.width * table.pitch + source.to + i % source.width] = from[i];
}

// The widest unit that all addresses and row lengths are multiples of.
std::size_t unit_of(const KernelCall& call, int axis, std::int64_t inner_bytes) {
  auto bits = reinterpret_cast<std::uintptr_t>(call.outputs[0].data);
  for (const TensorView& input : call.inputs) {
    if (input.size > 0)
      bits |=
          reinterpret_cast<std::uintptr_t>(input.data) | static_cast<std::uintptr_t>(input.shape[axis] * inner_bytes);
  }
  std::size_t unit = 16;
  while (bits % unit != 0)
    unit /= 2;
  return unit;
}

template <class U>
void launch(const KernelCall& call, const ConcatTable& table, int count) {
  std::int64_t widest = 0;
  for (int i = 0; i < count; ++i)
    widest = std::max(widest, table.rows * table.sources[i].width);
  const dim3 grid(std::min(blocks_for_groups(widest, 1), 65535u), static_cast<unsigned>(count));
  concat_kernel<<<grid, k_group_block, 0, static_cast<cudaStream_t>(call.queue.stream())>>>(
      table, call.outputs[0].as<U>());
  cuda::cuda_check(cudaGetLastError(), "concat");
}

template <class U>
void concat_units(const KernelCall& call, int axis, const AxisLayout& whole, std::int64_t inner_bytes) {
  ConcatTable table;
  const auto unit = static_cast<std::int64_t>(sizeof(U));
  table.rows = whole.outer;
  table.pitch = whole.n * inner_bytes / unit;
  std::int64_t to = 0;
  int count = 0;
  for (const TensorView& input : call.inputs) {
    if (input.size == 0)
      continue;
    const std::int64_t width = input.shape[axis] * inner_bytes / unit;
    table.sources[count++] = {input.data, width, to};
    to += width;
    if (count == k_table) {
      launch<U>(call, table, count);
      count = 0;
    }
  }
  if (count > 0)
    launch<U>(call, table, count);
}

}  // namespace

void concat_gpu(const KernelCall& call) {
  const int axis = static_cast<int>(call.attributes.as<ConcatAttributes>().axis);
  const AxisLayout whole = axis_layout(call.outputs[0].shape, axis);
  if (call.outputs[0].size == 0)
    return;
  const std::int64_t inner_bytes = whole.inner * static_cast<std::int64_t>(size_of(call.outputs[0].dtype));
  const std::size_t unit = unit_of(call, axis, inner_bytes);
  if (unit == sizeof(uint4))
    return concat_units<uint4>(call, axis, whole, inner_bytes);
  by_element_size(unit, [&]<class U>() { concat_units<U>(call, axis, whole, inner_bytes); });
}

}  // namespace sluice::detail
