#include <algorithm>
#include <cstdint>
#include <limits>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/gather/resolve_cuda.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/order_cuda.cuh>
#include <sluice/operator/workspace.h>

// Slices taken more than once add up without atomics: a stable sort brings the positions of each entry together, then
// groups of threads add them in order, long runs of one entry in two steps. Single elements of 4 bytes are sorted
// themselves, in place of their positions.
namespace sluice::detail {

namespace {

/// Entries, as narrow as their number allows.
struct Keys {
  std::uint32_t* narrow = nullptr;
  std::uint64_t* wide = nullptr;

  __device__ std::int64_t operator[](std::int64_t i) const {
    return narrow != nullptr ? narrow[i] : static_cast<std::int64_t>(wide[i]);
  }
  __device__ void put(std::int64_t i, std::int64_t entry) const {
    if (narrow != nullptr)
      narrow[i] = static_cast<std::uint32_t>(entry);
    else
      wide[i] = static_cast<std::uint64_t>(entry);
  }
};

/// An index that names no entry may name any: its task fails. Null positions are not wanted.
__global__ void __launch_bounds__(k_group_block) resolve_kernel(
    const __grid_constant__ ResolvedIndices indices, std::int64_t count, Keys keys, std::uint32_t* positions) {
  start_early();
  constexpr int k_found = 4;
  const Group group(1);
  for (std::int64_t first = group.index; first < count; first += k_found * group.count) {
    std::int64_t entries[k_found];
    indices.find(first, group.count, count, entries);
#pragma unroll
    for (int k = 0; k < k_found; ++k) {
      const std::int64_t i = first + k * group.count;
      if (i < count)
        keys.put(i, max(entries[k], std::int64_t{0}));
      if (i < count && positions != nullptr)
        positions[i] = static_cast<std::uint32_t>(i);
    }
  }
}

/// Entries in order with what was sorted along.
struct Sorted {
  Keys keys;
  std::uint32_t* carried = nullptr;  // positions, or elements
};

// Bits that tell the keys 0 .. n - 1 apart.
int bits_for(std::int64_t n) {
  int bits = 1;
  while (bits < 63 && ((n - 1) >> bits) != 0)
    ++bits;
  return bits;
}

/// Indices of a call in the order of what they name.
class SortedIndices {
 public:
  /// `carried`: what is sorted along, an element an index; null: its position.
  SortedIndices(const KernelCall& call, const Taking& taking, const std::uint32_t* carried)
      : count_(taking.at.indices),
        is_narrow_(taking.at.n <= std::int64_t{1} << 32),
        words_(
            call.queue,
            sizeof(std::uint32_t) *
                static_cast<std::size_t>(2 * count_ * words_a_key() + (carried == nullptr ? 2 * count_ : count_))) {
    constexpr std::int64_t k_most = std::numeric_limits<std::uint32_t>::max();
    require<UnsupportedError>(count_ <= k_most, [&] {
      return message(call.op.name, ": sums of ", count_, " indices, of which ", k_most, " are the most");
    });
    sorted_.carried = words_.as<std::uint32_t>() + 2 * count_ * words_a_key();
    std::uint32_t* const positions = carried == nullptr ? sorted_.carried + count_ : nullptr;
    const Keys keys = keys_at(0);
    sorted_.keys = keys_at(count_);
    const cudaStream_t stream = stream_of(call.queue);
    resolve_kernel<<<blocks_for_groups((count_ + 3) / 4, 1), k_group_block, 0, stream>>>(
        ResolvedIndices(call, taking.place), count_, keys, positions);
    check_early_launch(call.op.name, stream);
    const std::uint32_t* const along = carried == nullptr ? positions : carried;
    const int bits = bits_for(taking.at.n);
    if (is_narrow_)
      radix_sort(
          call, RadixSort<std::uint32_t>{keys.narrow, sorted_.keys.narrow, along, sorted_.carried, count_, bits});
    else
      radix_sort(call, RadixSort<std::uint64_t>{keys.wide, sorted_.keys.wide, along, sorted_.carried, count_, bits});
  }
  const Sorted& sorted() const noexcept { return sorted_; }

 private:
  Keys keys_at(std::int64_t first) const noexcept {
    return is_narrow_ ? Keys{words_.as<std::uint32_t>() + first, nullptr}
                      : Keys{nullptr, words_.as<std::uint64_t>() + first};
  }
  std::int64_t words_a_key() const noexcept { return is_narrow_ ? 1 : 2; }

  const std::int64_t count_;
  const bool is_narrow_;
  const Workspace words_;  // keys twice, then what is carried, once or twice: one piece of memory
  Sorted sorted_;
};

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
template <class C>
struct Columns {
  FloatingArray<C> dy;
  Sorted sorted;
  TakeLayout at;
  std::int64_t column[Chunks::k_each];
  std::int64_t offset[Chunks::k_each];
  bool exists[Chunks::k_each];
  C total[Chunks::k_each];

  __device__ Columns(
      const FloatingArray<C>& all,
      const Sorted& positions,
      const TakeLayout& layout,
      const Chunks& chunks,
      std::int64_t first)
      : dy(all), sorted(positions), at(layout) {
#pragma unroll
    for (int j = 0; j < Chunks::k_each; ++j) {
      exists[j] = first + j * chunks.width < chunks.columns;
      column[j] = exists[j] ? first + j * chunks.width : chunks.columns - 1;
      offset[j] = column[j];
      if (at.outer > 1)  // what is added to it for each of those before
        offset[j] += column[j] / at.inner * (at.indices - 1) * at.inner;
      total[j] = 0;
    }
  }

  __device__ void add(std::int64_t begin, std::int64_t end) {
#pragma unroll 4
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t row = std::int64_t{sorted.carried[p]} * at.inner;
#pragma unroll
      for (int j = 0; j < Chunks::k_each; ++j)
        total[j] += dy[offset[j] + row];
    }
  }

  __device__ void add_chunks(const C* sums, const Chunks& chunks, std::int64_t begin, std::int64_t end) {
#pragma unroll 4
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
#pragma unroll
      for (int j = 0; j < Chunks::k_each; ++j)
        total[j] += sums[chunk * chunks.columns + column[j]];
    }
  }
};

template <class C>
__global__ void __launch_bounds__(k_group_block)
    add_chunks_kernel(FloatingArray<C> dy, Sorted sorted, TakeLayout at, Chunks chunks, C* sums) {
  start_early();
  const Group group(chunks.width);
  for (std::int64_t i = group.index; i < chunks.count * chunks.tiles; i += group.count) {
    const std::int64_t chunk = i / chunks.tiles, begin = chunk * chunks.length, end = begin + chunks.length;
    const std::int64_t first = i % chunks.tiles * chunks.width * Chunks::k_each + group.lane;
    if (first >= chunks.columns || sorted.keys[begin] != sorted.keys[end - 1])
      continue;
    Columns<C> columns(dy, sorted, at, chunks, first);
    columns.add(begin, end);
#pragma unroll
    for (int j = 0; j < Chunks::k_each; ++j) {
      if (columns.exists[j])
        sums[chunk * chunks.columns + columns.column[j]] = columns.total[j];
    }
  }
}

// One past the last of the keys that equal keys[first]: strides double while they stay inside, then halve.
__device__ inline std::int64_t end_of_entry(const Keys& keys, std::int64_t first, std::int64_t count) {
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

template <class C>
__global__ void __launch_bounds__(k_group_block) add_taken_kernel(
    FloatingArray<C> dy, Sorted sorted, TakeLayout at, Chunks chunks, const C* sums, FloatingArray<C> dx) {
  start_early();
  const Group group(chunks.width);
  for (std::int64_t i = group.index; i < at.indices * chunks.tiles; i += group.count) {
    const std::int64_t begin = i / chunks.tiles, entry = sorted.keys[begin];
    const std::int64_t first = i % chunks.tiles * chunks.width * Chunks::k_each + group.lane;
    if (first >= chunks.columns || (begin > 0 && sorted.keys[begin - 1] == entry))
      continue;
    const std::int64_t end = end_of_entry(sorted.keys, begin, at.indices);
    const std::int64_t whole = (begin + chunks.length - 1) / chunks.length, whole_end = end / chunks.length;
    Columns<C> columns(dy, sorted, at, chunks, first);
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
        const std::int64_t outer = at.outer == 1 ? 0 : columns.column[j] / at.inner;
        const std::int64_t inner = columns.column[j] - outer * at.inner;
        dx.put((outer * at.n + entry) * at.inner + inner, columns.total[j]);
      }
    }
  }
}

/// Single elements in the order of their entries: sorted themselves, or where they are is.
template <class C>
struct SortedElements {
  FloatingArray<C> dy;
  Sorted sorted;
  bool moved;
  std::int64_t count, length;  // of a chunk

  __device__ C at(std::int64_t p) const {
    return moved ? reinterpret_cast<const C*>(sorted.carried)[p] : dy[sorted.carried[p]];
  }
  /// Is the chunk at p a whole one, of one entry?
  __device__ bool is_chunk(std::int64_t p, std::int64_t entry) const {
    return (p & (length - 1)) == 0 && p + length <= count && sorted.keys[p + length - 1] == entry;
  }
};

/// A warp a chunk of one entry.
template <class C>
__global__ void __launch_bounds__(k_group_block) add_element_chunks_kernel(SortedElements<C> walk, C* sums) {
  start_early();
  const Group group(k_warp);
  for (std::int64_t chunk = group.index; chunk < walk.count / walk.length; chunk += group.count) {
    const std::int64_t begin = chunk * walk.length;
    if (!walk.is_chunk(begin, walk.sorted.keys[begin]))
      continue;
    C total = 0;
    for (std::int64_t i = group.lane; i < walk.length; i += k_warp)
      total += walk.at(begin + i);
    total = join_group(total, k_warp, [](C a, C b) { return a + b; });
    if (group.lane == 0)
      sums[chunk] = total;
  }
}

/// A thread an entry.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    add_elements_kernel(SortedElements<C> walk, const C* sums, FloatingArray<C> dx) {
  start_early();
  const Group group(1);
  for (std::int64_t begin = group.index; begin < walk.count; begin += group.count) {
    const std::int64_t entry = walk.sorted.keys[begin];
    if (begin > 0 && walk.sorted.keys[begin - 1] == entry)
      continue;
    C total = 0;
    for (std::int64_t p = begin; p < walk.count && walk.sorted.keys[p] == entry;) {
      const bool whole = walk.is_chunk(p, entry);
      total += whole ? sums[p / walk.length] : walk.at(p);
      p += whole ? walk.length : 1;
    }
    dx.put(entry, total);
  }
}

template <class C>
void add_elements(const KernelCall& call, const Sorted& sorted, bool moved, const TakeLayout& at) {
  const cudaStream_t stream = stream_of(call.queue);
  const Chunks chunks(at);
  const Workspace scratch(call.queue, static_cast<std::size_t>(chunks.count) * sizeof(C));
  auto* const sums = scratch.as<C>();
  const SortedElements<C> walk{FloatingArray<C>(call.inputs[1]), sorted, moved, at.indices, chunks.length};
  if (chunks.count > 0) {
    add_element_chunks_kernel<<<blocks_for_groups(chunks.count, k_warp), k_group_block, 0, stream>>>(walk, sums);
    check_early_launch(call.op.name, stream);
  }
  add_elements_kernel<<<blocks_for_groups(at.indices, 1), k_group_block, 0, stream>>>(
      walk, sums, FloatingArray<C>(call.outputs[0]));
  check_early_launch(call.op.name, stream);
}

template <class C>
void add_taken(const KernelCall& call, const Sorted& sorted, const TakeLayout& at) {
  const cudaStream_t stream = stream_of(call.queue);
  const FloatingArray<C> dy(call.inputs[1]);
  const Chunks chunks(at);
  const Workspace scratch(call.queue, static_cast<std::size_t>(chunks.count * chunks.columns) * sizeof(C));
  auto* sums = scratch.as<C>();
  if (chunks.count > 0) {
    add_chunks_kernel<<<blocks_for_groups(chunks.count * chunks.tiles, chunks.width), k_group_block, 0, stream>>>(
        dy, sorted, at, chunks, sums);
    check_early_launch(call.op.name, stream);
  }
  add_taken_kernel<<<blocks_for_groups(at.indices * chunks.tiles, chunks.width), k_group_block, 0, stream>>>(
      dy, sorted, at, chunks, sums, FloatingArray<C>(call.outputs[0]));
  check_early_launch(call.op.name, stream);
}

/// Calls f.operator()<C>() with what elements are added up in.
template <class F>
void by_summed(DType dtype, const F& f) {
  if (dtype == DType::int64)
    f.template operator()<std::int64_t>();
  else
    by_computing_type(dtype, f);
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
  const bool single = at.outer * at.inner == 1, moved = single && size_of(dx.dtype) == sizeof(std::uint32_t);
  const SortedIndices by_entry(call, taking, moved ? call.inputs[1].as<const std::uint32_t>() : nullptr);
  by_summed(dx.dtype, [&]<class C>() {
    if (single)
      add_elements<C>(call, by_entry.sorted(), moved, at);
    else
      add_taken<C>(call, by_entry.sorted(), at);
  });
}

}  // namespace sluice::detail
