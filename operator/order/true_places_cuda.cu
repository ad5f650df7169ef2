// Where a row of truths is true, and what stands there: its pieces are counted, then each writes its own behind those
// of the ones before.
#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/keys.h>
#include <sluice/operator/order/places.h>
#include <sluice/operator/scan/scan_cuda.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

constexpr int k_each = 16;  // truths that a thread loads at once
constexpr int k_tile = k_group_block * k_each;
constexpr std::int64_t k_most_pieces = 2048;  // few enough for each to add up the counts of those before it

/// A row cut into pieces of whole tiles, by its length alone.
struct TruthRow {
  const std::uint8_t* truths;
  std::int64_t n, chunk, pieces;
  bool starts;  // a load, at the first truth

  explicit TruthRow(const TensorView& x)
      : truths(x.as<const std::uint8_t>()), n(x.size), starts(starts_neighbours<std::uint8_t, k_each>(x.data)) {
    const std::int64_t tiles = (n + k_tile - 1) / k_tile;
    chunk = (tiles + k_most_pieces - 1) / k_most_pieces * k_tile;
    pieces = (n + chunk - 1) / chunk;
  }

  __device__ std::int64_t first(std::int64_t piece) const { return piece * chunk; }
  __device__ std::int64_t end(std::int64_t piece) const { return min((piece + 1) * chunk, n); }
  /// A bit for each truth from i on that is true and before `end`.
  __device__ unsigned bits(std::int64_t i, std::int64_t end) const {
    unsigned bits = 0;
    if (starts && i + k_each <= end) {
      const auto loaded = *reinterpret_cast<const Neighbours<std::uint8_t, k_each>*>(truths + i);
#pragma unroll
      for (int j = 0; j < k_each; ++j)
        bits |= (loaded.at[j] != 0 ? 1u : 0u) << j;
    } else {
      for (int j = 0; j < k_each && i + j < end; ++j)
        bits |= (truths[i + j] != 0 ? 1u : 0u) << j;
    }
    return bits;
  }
};

/// What scan_group() counts with.
struct CountSum {
  using Acc = int;
  __device__ static Acc identity() { return 0; }
  __device__ static Acc join(Acc a, Acc b) { return a + b; }
};

__device__ std::int64_t block_sum(std::int64_t count) {
  return join_group(count, k_group_block, [](std::int64_t a, std::int64_t b) { return a + b; });
}

__global__ void __launch_bounds__(k_group_block) count_truths_kernel(TruthRow row, std::int64_t* counts) {
  start_early();
  const std::int64_t end = row.end(blockIdx.x);
  std::int64_t count = 0;
  for (std::int64_t i = row.first(blockIdx.x) + threadIdx.x * k_each; i < end; i += k_tile)
    count += __popc(row.bits(i, end));
  count = block_sum(count);
  if (threadIdx.x == 0)
    counts[blockIdx.x] = count;
}

/// What is written, at most `count` of it: places, `n` where there are less, or entries of `bytes` bytes. The switch is
/// the same for all threads.
struct Chosen {
  std::int64_t count, n;
  void* to;
  const void* entries;  // null: places
  std::size_t bytes;

  __device__ void put(std::int64_t at, std::int64_t place) const {
    if (at >= count)
      return;
    if (entries == nullptr)
      static_cast<std::int64_t*>(to)[at] = place;
    else if (bytes == sizeof(std::uint64_t))
      static_cast<std::uint64_t*>(to)[at] = static_cast<const std::uint64_t*>(entries)[place];
    else
      store_bits(to, bytes, at, load_bits<std::uint32_t>(entries, bytes, place));
  }
  __device__ void put_none(std::int64_t at) const {
    if (entries == nullptr)
      static_cast<std::int64_t*>(to)[at] = n;
    else if (n > 0)  // as who takes an entry that is not there
      put(at, n - 1);
  }
};

__global__ void __launch_bounds__(k_group_block)
    true_places_kernel(TruthRow row, const std::int64_t* counts, Chosen chosen) {
  start_early();
  __shared__ std::uint16_t found[k_tile];
  const std::int64_t end = row.end(blockIdx.x);
  std::int64_t before = 0;
  for (std::int64_t piece = threadIdx.x; piece < blockIdx.x; piece += k_group_block)
    before += counts[piece];
  before = block_sum(before);
  for (std::int64_t first = row.first(blockIdx.x); first < end; first += k_tile) {
    const int own = static_cast<int>(threadIdx.x) * k_each;
    const unsigned bits = row.bits(first + own, end);
    int all;
    int at = scan_group(CountSum(), __popc(bits), k_group_block, all);
#pragma unroll
    for (int j = 0; j < k_each; ++j) {
      if ((bits >> j & 1) != 0)
        found[at++] = static_cast<std::uint16_t>(own + j);
    }
    __syncthreads();
    for (int k = static_cast<int>(threadIdx.x); k < all; k += k_group_block)
      chosen.put(before + k, first + found[k]);
    before += all;
    __syncthreads();  // the next tile writes again
  }
  if (blockIdx.x + 1 == row.pieces) {
    for (std::int64_t i = before + threadIdx.x; i < chosen.count; i += k_group_block)
      chosen.put_none(i);
  }
}

void choose(const KernelCall& call, const TensorView& truths, const void* entries) {
  const TensorView& y = call.outputs[0];
  if (y.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  const TruthRow row(truths);
  const auto blocks = static_cast<unsigned>(row.pieces);
  const Workspace scratch(call.queue, static_cast<std::size_t>(row.pieces) * sizeof(std::int64_t));
  auto* const counts = scratch.as<std::int64_t>();
  count_truths_kernel<<<blocks, k_group_block, 0, stream>>>(row, counts);
  check_early_launch(call.op.name, stream);
  const Chosen chosen{y.size, row.n, y.data, entries, size_of(y.dtype)};
  true_places_kernel<<<blocks, k_group_block, 0, stream>>>(row, counts, chosen);
  check_early_launch(call.op.name, stream);
}

/// Elements of a sorted row; floating ones are compared as numbers.
struct SortedRow {
  const void* x;
  std::size_t bytes;
  bool floats;
  FloatingArray<float> narrow;
  FloatingArray<double> wide;

  explicit SortedRow(const TensorView& view)
      : x(view.data), bytes(size_of(view.dtype)), floats(is_floating(view.dtype)), narrow(view), wide(view) {}

  template <class C>
  __device__ static bool differs(C next, C before) {
    return next != before && before == before;  // behind a NaN there are NaNs
  }
  __device__ bool begins(std::int64_t i) const {
    if (i == 0)
      return true;
    if (bytes == sizeof(std::uint64_t)) {
      const auto* const whole = static_cast<const std::uint64_t*>(x);
      return floats ? differs(wide[i], wide[i - 1]) : whole[i] != whole[i - 1];
    }
    if (floats)
      return differs(narrow[i], narrow[i - 1]);
    return load_bits<std::uint32_t>(x, bytes, i) != load_bits<std::uint32_t>(x, bytes, i - 1);
  }
};

__global__ void __launch_bounds__(k_group_block) run_begins_kernel(SortedRow row, std::int64_t n, bool* begins) {
  start_early();
  constexpr std::int64_t k_under_way = 4;
  const Group group(1);
  for (std::int64_t first = group.index; first < n; first += k_under_way * group.count) {
    bool made[k_under_way];
#pragma unroll
    for (int u = 0; u < k_under_way; ++u)
      made[u] = row.begins(min(first + u * group.count, n - 1));
#pragma unroll
    for (int u = 0; u < k_under_way; ++u) {
      if (first + u * group.count < n)
        begins[first + u * group.count] = made[u];
    }
  }
}

}  // namespace

void true_places_gpu(const KernelCall& call) {
  choose(call, call.inputs[0], nullptr);
}

void true_entries_gpu(const KernelCall& call) {
  choose(call, call.inputs[1], call.inputs[0].data);
}

void run_begins_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  run_begins_kernel<<<blocks_for_groups((x.size + 3) / 4, 1), k_group_block, 0, stream>>>(
      SortedRow(x), x.size, y.as<bool>());
  check_early_launch(call.op.name, stream);
}

}  // namespace sluice::detail
