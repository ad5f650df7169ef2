// The best of few long rows on a GPU: many blocks a row count how often each digit of the keys occurs, from the
// highest, until no more are left than are wanted; of equal keys the same with the entries. Then they are gathered.
#include <algorithm>
#include <cstdint>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/multiprocessors.h>
#include <sluice/operator/order/order_cuda.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

constexpr int k_digit_bits = 8, k_digits = 1 << k_digit_bits;
constexpr int k_entry_shift = 32 - k_digit_bits;  // of the highest digit of an entry
static_assert(k_digits == k_block);

/// What is known of a row's kept'th best.
template <class U>
struct Narrowed {
  U prefix, mask;  // its digits so far
  unsigned taken;
  int tied;             // more have its key than are wanted
  std::int64_t wanted;  // of those with these digits
  std::int64_t there;   // how many have them
  std::int64_t last;    // of equal keys those up to this entry
};

/// One digit of what is looked for.
struct Level {
  int shift;
  bool of_entries;
};

template <class U>
__global__ void __launch_bounds__(k_block) begin_kernel(OrderRows<U> order, Narrowed<U>* rows, unsigned* counts) {
  counts[static_cast<std::int64_t>(blockIdx.x) * k_digits + threadIdx.x] = 0;
  if (threadIdx.x == 0)
    rows[blockIdx.x] = {0, 0, 0, 0, order.kept, order.n, order.n};
}

/// Calls f(i, key) for this thread's share of a row, several loads under way.
template <class U, class F>
__device__ void each_key(const OrderRows<U>& order, std::int64_t row, const F& f) {
  constexpr int k_under_way = 8;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * k_block;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * k_block + threadIdx.x;
  for (std::int64_t begin = first; begin < order.n; begin += k_under_way * step) {
    U keys[k_under_way];
#pragma unroll
    for (int u = 0; u < k_under_way; ++u) {
      if (begin + u * step < order.n)
        keys[u] = order.key(row, begin + u * step, true);
    }
#pragma unroll
    for (int u = 0; u < k_under_way; ++u) {
      if (begin + u * step < order.n)
        f(begin + u * step, keys[u]);
    }
  }
}

template <class U>
__global__ void __launch_bounds__(k_block)
    count_kernel(OrderRows<U> order, Level level, const Narrowed<U>* rows, unsigned* counts) {
  // A place for each lane of a warp: of what is alike all lanes have the same digit.
  __shared__ unsigned own[k_digits][k_warp];
  const std::int64_t row = blockIdx.y;
  const Narrowed<U> known = rows[row];
  if (level.of_entries ? known.tied == 0 : known.there <= known.wanted)
    return;
  const int lane = static_cast<int>(threadIdx.x) % k_warp;
  for (int digit = static_cast<int>(threadIdx.x) / k_warp; digit < k_digits; digit += k_block / k_warp)
    own[digit][lane] = 0;
  __syncthreads();
  each_key(order, row, [&](std::int64_t i, U key) {
    if (level.of_entries) {
      const int above = level.shift + k_digit_bits;
      if (key == known.prefix && i >> above == known.last >> above)
        atomicAdd(&own[static_cast<int>(i >> level.shift) & (k_digits - 1)][lane], 1u);
    } else if ((key & known.mask) == known.prefix) {
      atomicAdd(&own[static_cast<int>(key >> level.shift) & (k_digits - 1)][lane], 1u);
    }
  });
  __syncthreads();
  unsigned sum = 0;
  for (int k = 0; k < k_warp; ++k)
    sum += own[threadIdx.x][(lane + k) % k_warp];
  if (sum != 0)
    atomicAdd(&counts[row * k_digits + threadIdx.x], sum);
}

/// Reads the counts of a row, which are 0 for the next digit then; a block a row.
template <class U>
__global__ void __launch_bounds__(k_block) choose_kernel(Level level, Narrowed<U>* rows, unsigned* counts) {
  __shared__ std::int64_t sums[2][k_block];
  Narrowed<U>& row = rows[blockIdx.x];
  const Narrowed<U> known = row;
  if (level.of_entries ? known.tied == 0 : known.there <= known.wanted)
    return;
  unsigned& mine = counts[static_cast<std::int64_t>(blockIdx.x) * k_digits + threadIdx.x];
  const std::int64_t own = mine;
  mine = 0;
  int from = 0;
  sums[from][threadIdx.x] = own;
  for (int below = 1; below < k_block; below *= 2, from ^= 1) {
    __syncthreads();
    const std::int64_t there = sums[from][threadIdx.x];
    sums[from ^ 1][threadIdx.x] =
        static_cast<int>(threadIdx.x) < below ? there : there + sums[from][threadIdx.x - below];
  }
  const std::int64_t before = sums[from][threadIdx.x] - own;  // each thread's own, which it wrote
  if (before >= known.wanted || before + own < known.wanted)
    return;
  const auto digit = static_cast<std::int64_t>(threadIdx.x);
  row.wanted = known.wanted - before;
  row.there = own;
  if (level.of_entries) {
    row.last = (level.shift == k_entry_shift ? 0 : known.last) | digit << level.shift;
  } else {
    row.prefix = static_cast<U>(known.prefix | static_cast<U>(digit) << level.shift);
    row.mask = static_cast<U>(known.mask | U{k_digits - 1} << level.shift);
    row.tied = level.shift == 0 && own > row.wanted ? 1 : 0;
  }
}

/// In any order: who looks at them sorts them.
template <class U>
__global__ void __launch_bounds__(k_block) gather_kernel(OrderRows<U> order, Narrowed<U>* rows, Item<U>* best) {
  const std::int64_t row = blockIdx.y;
  const Narrowed<U> known = rows[row];
  each_key(order, row, [&](std::int64_t i, U key) {
    const U digits = key & known.mask;
    if (digits < known.prefix || (digits == known.prefix && i <= known.last))
      best[row * order.kept + atomicAdd(&rows[row].taken, 1u)] = {key, static_cast<std::uint32_t>(i)};
  });
}

template <class U>
void select_rows(const KernelCall& call, const OrderRows<U>& order, Item<U>* best) {
  constexpr std::int64_t k_keys_each = 32, k_most_blocks = k_multiprocessors * 6;
  const cudaStream_t stream = stream_of(call.queue);
  const auto rows = static_cast<unsigned>(order.rows);
  const auto share =
      static_cast<unsigned>(std::clamp<std::int64_t>(order.n / (k_block * k_keys_each), 1, k_most_blocks));
  const Workspace narrowed(call.queue, rows * sizeof(Narrowed<U>)),
      room(call.queue, rows * k_digits * sizeof(unsigned));
  auto* const known = narrowed.as<Narrowed<U>>();
  auto* const counts = room.as<unsigned>();
  begin_kernel<<<rows, k_block, 0, stream>>>(order, known, counts);
  check_launch(call.op.name);
  const auto narrow = [&](const Level& level) {
    count_kernel<<<dim3(share, rows), k_block, 0, stream>>>(order, level, known, counts);
    check_launch(call.op.name);
    choose_kernel<<<rows, k_block, 0, stream>>>(level, known, counts);
    check_launch(call.op.name);
  };
  for (int shift = static_cast<int>(8 * order.bytes) - k_digit_bits; shift >= 0; shift -= k_digit_bits)
    narrow({shift, false});
  for (int shift = k_entry_shift; shift >= 0; shift -= k_digit_bits)
    narrow({shift, true});
  gather_kernel<<<dim3(share, rows), k_block, 0, stream>>>(order, known, best);
  check_launch(call.op.name);
}

}  // namespace

void select_of_long_rows(const KernelCall& call, const OrderRows<std::uint32_t>& order, Item<std::uint32_t>* best) {
  select_rows(call, order, best);
}

void select_of_long_rows(const KernelCall& call, const OrderRows<std::uint64_t>& order, Item<std::uint64_t>* best) {
  select_rows(call, order, best);
}

}  // namespace sluice::detail
