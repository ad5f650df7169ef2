#include <cub/device/device_radix_sort.cuh>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/gather/resolve_cuda.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/workspace.h>

// Slices taken more than once add up without atomics: a stable sort brings the positions of each entry together, then
// groups of threads add them in order, long runs of one entry in two steps.
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
    resolve_kernel(ResolvedIndices indices, std::int64_t count, std::int64_t n, SortBuffers to) {
  const Group group(1);
  for (std::int64_t i = group.index; i < count; i += group.count) {
    const std::int64_t entry = indices.at(i, true);
    to.keys[i] = entry < 0 ? n : entry;
    to.positions[i] = i;
  }
}

/// How sorted positions are added up: `length` after each other are a chunk. A chunk of one entry alone is added by
/// groups of its own before the entries are, so that an entry taken at all positions is not left to one group. Chunks
/// and columns follow from shapes, the order of additions from shapes and indices: never from who is there to add.
struct Chunks {
  std::int64_t length = 64;  // at least: entries of a few positions, the common case, need no second step
  std::int64_t count;        // whole ones
  std::int64_t columns;      // elements of an entry, along all axes beside the one that is taken from
  std::int64_t tiles;        // of the columns that a group adds at once
  int width;                 // threads of a group

  static constexpr int k_each = 4;  // columns a thread

  explicit Chunks(const TakeLayout& at) : columns(at.outer * at.inner), width(group_width(columns)) {
    while (length < at.indices / length)
      length *= 2;
    count = at.indices / length;
    tiles = (columns + width * k_each - 1) / (width * k_each);
  }
};

/// The columns of one thread, and their sums so far. Columns beyond the last one repeat it and are not written.
template <class T>
struct Columns {
  const T* dy;
  SortBuffers sorted;
  TakeLayout at;
  std::int64_t column[Chunks::k_each];
  std::int64_t offset[Chunks::k_each];
  bool exists[Chunks::k_each];
  Compute<T> total[Chunks::k_each];

  __device__ Columns(
      const T* all, const SortBuffers& positions, const TakeLayout& layout, const Chunks& chunks, std::int64_t first)
      : dy(all), sorted(positions), at(layout) {
#pragma unroll
    for (int j = 0; j < Chunks::k_each; ++j) {
      exists[j] = first + j * chunks.width < chunks.columns;
      column[j] = exists[j] ? first + j * chunks.width : chunks.columns - 1;
      offset[j] = column[j] / at.inner * at.indices * at.inner + column[j] % at.inner;
      total[j] = 0;
    }
  }

  __device__ void add(std::int64_t begin, std::int64_t end) {
#pragma unroll 4
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t row = sorted.sorted_positions[p] * at.inner;
#pragma unroll
      for (int j = 0; j < Chunks::k_each; ++j)
        total[j] += static_cast<Compute<T>>(dy[offset[j] + row]);
    }
  }

  __device__ void add_chunks(const Compute<T>* sums, const Chunks& chunks, std::int64_t begin, std::int64_t end) {
#pragma unroll 4
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
#pragma unroll
      for (int j = 0; j < Chunks::k_each; ++j)
        total[j] += sums[chunk * chunks.columns + column[j]];
    }
  }
};

template <class T>
__global__ void __launch_bounds__(k_group_block)
    add_chunks_kernel(const T* dy, SortBuffers sorted, TakeLayout at, Chunks chunks, Compute<T>* sums) {
  const Group group(chunks.width);
  for (std::int64_t i = group.index; i < chunks.count * chunks.tiles; i += group.count) {
    const std::int64_t chunk = i / chunks.tiles, begin = chunk * chunks.length, end = begin + chunks.length;
    const std::int64_t first = i % chunks.tiles * chunks.width * Chunks::k_each + group.lane;
    if (first >= chunks.columns || sorted.sorted_keys[begin] != sorted.sorted_keys[end - 1])
      continue;
    Columns<T> columns(dy, sorted, at, chunks, first);
    columns.add(begin, end);
#pragma unroll
    for (int j = 0; j < Chunks::k_each; ++j) {
      if (columns.exists[j])
        sums[chunk * chunks.columns + columns.column[j]] = columns.total[j];
    }
  }
}

// One past the last of the keys that equal keys[first]: strides double while they stay inside, then halve.
__device__ inline std::int64_t end_of_entry(const std::int64_t* keys, std::int64_t first, std::int64_t count) {
  const std::int64_t entry = keys[first];
  std::int64_t last = first, step = 1;
  for (; last + step < count && keys[last + step] == entry; step *= 2)
    last += step;
  for (; step > 0; step /= 2) {
    if (last + step < count && keys[last + step] == entry)
      last += step;
  }
  return last + 1;
}

template <class T>
__global__ void __launch_bounds__(k_group_block)
    add_taken_kernel(const T* dy, SortBuffers sorted, TakeLayout at, Chunks chunks, const Compute<T>* sums, T* dx) {
  const Group group(chunks.width);
  for (std::int64_t i = group.index; i < at.indices * chunks.tiles; i += group.count) {
    const std::int64_t begin = i / chunks.tiles, entry = sorted.sorted_keys[begin];
    const std::int64_t first = i % chunks.tiles * chunks.width * Chunks::k_each + group.lane;
    if (first >= chunks.columns || entry == at.n || (begin > 0 && sorted.sorted_keys[begin - 1] == entry))
      continue;
    const std::int64_t end = end_of_entry(sorted.sorted_keys, begin, at.indices);
    const std::int64_t whole = (begin + chunks.length - 1) / chunks.length, whole_end = end / chunks.length;
    Columns<T> columns(dy, sorted, at, chunks, first);
    if (whole < whole_end) {
      columns.add(begin, whole * chunks.length);
      columns.add_chunks(sums, chunks, whole, whole_end);
      columns.add(whole_end * chunks.length, end);
    } else {
      columns.add(begin, end);
    }
#pragma unroll
    for (int j = 0; j < Chunks::k_each; ++j) {
      if (columns.exists[j]) {
        const std::int64_t outer = columns.column[j] / at.inner, inner = columns.column[j] % at.inner;
        dx[(outer * at.n + entry) * at.inner + inner] = static_cast<T>(columns.total[j]);
      }
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
  const cudaStream_t stream = stream_of(call.queue);
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

template <class T>
void add_taken(const KernelCall& call, const SortBuffers& sorted, const TakeLayout& at) {
  const cudaStream_t stream = stream_of(call.queue);
  const T* dy = call.inputs[1].as<const T>();
  const Chunks chunks(at);
  const Workspace scratch(call.queue, static_cast<std::size_t>(chunks.count * chunks.columns) * sizeof(Compute<T>));
  auto* sums = scratch.as<Compute<T>>();
  if (chunks.count > 0) {
    add_chunks_kernel<<<blocks_for_groups(chunks.count * chunks.tiles, chunks.width), k_group_block, 0, stream>>>(
        dy, sorted, at, chunks, sums);
    cuda::cuda_check(cudaGetLastError(), "take_backward");
  }
  add_taken_kernel<<<blocks_for_groups(at.indices * chunks.tiles, chunks.width), k_group_block, 0, stream>>>(
      dy, sorted, at, chunks, sums, call.outputs[0].as<T>());
}

}  // namespace

void take_backward_gpu(const KernelCall& call, IndexKind kind) {
  const TensorView &indices = call.inputs[0], &dx = call.outputs[0];
  const Taking taking = taking_of(kind, call, indices, dx.shape);
  const TakeLayout& at = taking.at;
  if (dx.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  const std::size_t bytes = static_cast<std::size_t>(dx.size) * size_of(dx.dtype);
  cuda::cuda_check(cudaMemsetAsync(dx.data, 0, bytes, stream), "cudaMemsetAsync");
  if (at.indices == 0)
    return;
  const Workspace scratch(call.queue, static_cast<std::size_t>(at.indices) * 4 * sizeof(std::int64_t));
  auto* words = scratch.as<std::int64_t>();
  const SortBuffers buffers{words, words + at.indices, words + 2 * at.indices, words + 3 * at.indices};
  resolve_kernel<<<blocks_for_groups(at.indices, 1), k_group_block, 0, stream>>>(
      ResolvedIndices(call, taking.place), at.indices, at.n, buffers);
  cuda::cuda_check(cudaGetLastError(), "take_backward");
  sort(call, buffers, at.indices, at.n);
  by_summable(dx.dtype, [&]<class T>() { add_taken<T>(call, buffers, at); });
  cuda::cuda_check(cudaGetLastError(), "take_backward");
}

}  // namespace sluice::detail
