#include <algorithm>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/update/floats.cuh>
#include <sluice/operator/update/guard_kernels.h>
#include <sluice/operator/update/loss_scale.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

constexpr int k_arrays_a_launch = 120;  // the table is a kernel argument, of at most 4 KiB
constexpr int k_four = 4;
constexpr std::int64_t k_per_guard_block = std::int64_t{k_group_block} * k_four * 4;

struct GuardTable {
  struct Entry {
    const void* data;
    std::int64_t size;
    DType dtype;
    bool aligned;
  };
  Entry entries[k_arrays_a_launch];
  unsigned first_block[k_arrays_a_launch];
  int count = 0;
  unsigned blocks = 0;
};
static_assert(sizeof(GuardTable) + sizeof(void*) <= 4096);

template <int V, class C>
__device__ void add_some(const GuardTable::Entry& entry, std::int64_t i, GuardSums& sums) {
  C values[V];
  load_floats(entry.dtype, entry.data, i, values);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    sums.squares += static_cast<double>(values[j]) * static_cast<double>(values[j]);
    sums.strange += is_strange(values[j]) ? 1 : 0;
  }
}

template <class C>
__device__ GuardSums sums_of(const GuardTable::Entry& entry, std::int64_t begin) {
  GuardSums sums{};
  const std::int64_t end = min(begin + k_per_guard_block, entry.size);
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * k_four; i < end; i += k_group_block * k_four) {
    if (entry.aligned && i + k_four <= end) {
      add_some<k_four, C>(entry, i, sums);
    } else {
      for (std::int64_t one = i; one < min(i + k_four, end); ++one)
        add_some<1, C>(entry, one, sums);
    }
  }
  return sums;
}

__device__ GuardSums sum_in_block(const GuardSums& sums) {
  return join_group(sums, k_group_block, [](const GuardSums& a, const GuardSums& b) {
    return GuardSums{a.squares + b.squares, a.strange + b.strange};
  });
}

__global__ void __launch_bounds__(k_group_block)
    guard_sums_kernel(const __grid_constant__ GuardTable table, GuardSums* partial) {
  start_early();
  int low = 0, high = table.count - 1;  // the last entry that begins at this block or before
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.first_block[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle - 1;
  }
  const GuardTable::Entry& entry = table.entries[low];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - table.first_block[low]) * k_per_guard_block;
  GuardSums sums = entry.dtype == DType::float64 ? sums_of<double>(entry, begin) : sums_of<float>(entry, begin);
  sums = sum_in_block(sums);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = sums;
}

__global__ void __launch_bounds__(k_group_block)
    guard_kernel(const GuardSums* partial, std::int64_t count, GuardSettings settings, double* to) {
  start_early();
  GuardSums sums{};
  for (std::int64_t i = threadIdx.x; i < count; i += k_group_block)
    sums = {sums.squares + partial[i].squares, sums.strange + partial[i].strange};
  sums = sum_in_block(sums);
  if (threadIdx.x == 0)
    write_guard(settings, sums, to);
}

__global__ void loss_scale_kernel(LossScaleStep step, float* scale, std::int64_t* clean, const double* guard) {
  start_early();
  step.follow(guard[2] != 0, *scale, *clean);
}

unsigned blocks_of(const TensorView& array) {
  return static_cast<unsigned>((array.size + k_per_guard_block - 1) / k_per_guard_block);
}

GuardSums* launch(GuardTable& table, GuardSums* partial, cudaStream_t stream) {
  if (table.count == 0)
    return partial;
  guard_sums_kernel<<<table.blocks, k_group_block, 0, stream>>>(table, partial);
  check_early_launch("squares of gradients", stream);
  partial += table.blocks;
  table.count = 0;
  table.blocks = 0;
  return partial;
}

}  // namespace

void guard_gpu(const KernelCall& call) {
  const GuardWork work = guard_work(call);
  const cudaStream_t stream = stream_of(call.queue);
  std::int64_t blocks = 0;
  for (const TensorView& array : work.arrays)
    blocks += blocks_of(array);
  const Workspace scratch(call.queue, static_cast<std::size_t>(blocks) * sizeof(GuardSums));
  auto* partial = scratch.as<GuardSums>();
  GuardTable table;
  for (const TensorView& array : work.arrays) {
    if (array.size == 0)
      continue;
    const auto bytes = k_four * size_of(array.dtype);
    table.first_block[table.count] = table.blocks;
    table.blocks += blocks_of(array);
    table.entries[table.count++] = {
        array.data, array.size, array.dtype, reinterpret_cast<std::uintptr_t>(array.data) % bytes == 0};
    if (table.count == k_arrays_a_launch)
      partial = launch(table, partial, stream);
  }
  launch(table, partial, stream);
  guard_kernel<<<1, k_group_block, 0, stream>>>(
      scratch.as<GuardSums>(), blocks, work.settings(), call.outputs[0].as<double>());
  check_early_launch("guard of gradients", stream);
}

void loss_scale_gpu(const KernelCall& call) {
  const cudaStream_t stream = stream_of(call.queue);
  loss_scale_kernel<<<1, 1, 0, stream>>>(
      LossScaleStep(call.attributes.as<LossScaleRules>()),
      call.inputs[0].as<float>(),
      call.inputs[1].as<std::int64_t>(),
      call.inputs[2].as<const double>());
  check_early_launch(call.op.name, stream);
}

}  // namespace sluice::detail
