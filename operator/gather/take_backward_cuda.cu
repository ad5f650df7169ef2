#include <cub/device/device_radix_sort.cuh>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/gather/resolve_cuda.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/workspace.h>

// Slices taken more than once add up without atomics: a stable sort brings the positions of each entry together, then
// one group of threads an entry adds them in order.
namespace sluice::detail {

namespace {

/// Keys and positions, before and after sorting. An index that names no entry has the key n, which sorts last.
struct SortBuffers {
  std::int64_t* keys;
  std::int64_t* sorted_keys;
  std::int64_t* positions;
  std::int64_t* sorted_positions;
};

__global__ void __launch_bounds__(k_group_block)
    resolve_kernel(ResolvedIndices indices, std::int64_t count, SortBuffers to) {
  const Group group(1);
  for (std::int64_t i = group.index; i < count; i += group.count) {
    const std::int64_t entry = indices.at(i, true);
    to.keys[i] = entry < 0 ? indices.extent : entry;
    to.positions[i] = i;
  }
}

template <class T>
__global__ void __launch_bounds__(k_group_block)
    add_taken_kernel(const T* dy, SortBuffers sorted, TakeLayout at, int width, T* dx) {
  using C = Compute<T>;
  const Group group(width);
  for (std::int64_t first = group.index; first < at.indices; first += group.count) {
    const std::int64_t entry = sorted.sorted_keys[first];
    if (entry == at.n || (first > 0 && sorted.sorted_keys[first - 1] == entry))
      continue;
    for (std::int64_t column = group.lane; column < at.outer * at.inner; column += width) {
      const std::int64_t outer = column / at.inner, inner = column % at.inner;
      C total = 0;
      for (std::int64_t p = first; p < at.indices && sorted.sorted_keys[p] == entry; ++p)
        total += static_cast<C>(dy[(outer * at.indices + sorted.sorted_positions[p]) * at.inner + inner]);
      dx[(outer * at.n + entry) * at.inner + inner] = static_cast<T>(total);
    }
  }
}

// Bits that tell the keys 0 .. n apart.
int bits_for(std::int64_t n) {
  int bits = 1;
  while (bits < 63 && (n >> bits) != 0)
    ++bits;
  return bits;
}

void sort(const KernelCall& call, const SortBuffers& buffers, std::int64_t count, std::int64_t extent) {
  const auto stream = static_cast<cudaStream_t>(call.queue.stream());
  std::size_t bytes = 0;
  const auto run = [&](void* scratch) {
    cuda::cuda_check(
        cub::DeviceRadixSort::SortPairs(
            scratch,
            bytes,
            buffers.keys,
            buffers.sorted_keys,
            buffers.positions,
            buffers.sorted_positions,
            count,
            0,
            bits_for(extent),
            stream),
        "cub::DeviceRadixSort::SortPairs");
  };
  run(nullptr);
  const Workspace scratch(call.queue, bytes);
  run(scratch.data());
}

}  // namespace

void take_backward_gpu(const KernelCall& call) {
  const auto& a = call.attributes.as<GatherAttributes>();
  const TensorView &indices = call.inputs[0], &dy = call.inputs[1], &dx = call.outputs[0];
  const TakeLayout at = take_layout(dy.shape, indices.shape, a);
  if (dx.size == 0)
    return;
  const auto stream = static_cast<cudaStream_t>(call.queue.stream());
  const std::size_t bytes = static_cast<std::size_t>(dx.size) * size_of(dx.dtype);
  cuda::cuda_check(cudaMemsetAsync(dx.data, 0, bytes, stream), "cudaMemsetAsync");
  if (at.indices == 0)
    return;
  const Workspace scratch(call.queue, static_cast<std::size_t>(at.indices) * 4 * sizeof(std::int64_t));
  auto* words = scratch.as<std::int64_t>();
  const SortBuffers buffers{words, words + at.indices, words + 2 * at.indices, words + 3 * at.indices};
  resolve_kernel<<<blocks_for_groups(at.indices, 1), k_group_block, 0, stream>>>(
      ResolvedIndices(call, indices), at.indices, buffers);
  cuda::cuda_check(cudaGetLastError(), "take_backward");
  sort(call, buffers, at.indices, at.n);
  const int width = group_width(at.outer * at.inner);
  by_floating(dx.dtype, [&]<class T>() {
    add_taken_kernel<<<blocks_for_groups(at.indices, width), k_group_block, 0, stream>>>(
        dy.as<const T>(), buffers, at, width, dx.as<T>());
  });
  cuda::cuda_check(cudaGetLastError(), "take_backward");
}

}  // namespace sluice::detail
