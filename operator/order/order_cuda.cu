// Rows in order on a GPU: sorted in tiles, several short rows or a part of a long one each, and merged. Of long rows of
// which few entries are kept those are selected first; few very long ones are sorted by radix (radix_cuda.cuh).
#include <algorithm>
#include <cstdint>

#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/order_cuda.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

/// How rows of n lie in tiles: `length` slots each row, or several tiles a row.
struct Tiles {
  std::int64_t n;
  int length;              // of a run, a power of two times k_items_each
  std::int64_t rows_each;  // rows a tile
  std::int64_t a_row;      // tiles a row
  std::int64_t count;

  Tiles(std::int64_t rows, std::int64_t entries) : n(entries), length(k_items_each) {
    while (length < entries && length < k_tile_items)
      length *= 2;
    rows_each = k_tile_items / length;
    a_row = (entries + length - 1) / length;
    count = a_row > 1 ? rows * a_row : (rows + rows_each - 1) / rows_each;
  }
  __device__ std::int64_t row(std::int64_t tile, int slot) const {
    return a_row > 1 ? tile / a_row : tile * rows_each + slot / length;
  }
  __device__ std::int64_t entry(std::int64_t tile, int slot) const {
    return a_row > 1 ? tile % a_row * k_tile_items + slot : slot % length;
  }
};

/// Of x, or of `given` items, rows of tiles.n: sorted runs go to `runs`, or where there is none results are written.
template <class U>
__global__ void __launch_bounds__(k_block)
    sort_tiles_kernel(OrderRows<U> order, Tiles tiles, const Item<U>* given, Item<U>* runs) {
  __shared__ Item<U> room[Slots<Item<U>>::k_room];
  const Slots<Item<U>> items{room};
  for (std::int64_t tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
    for (int slot = static_cast<int>(threadIdx.x); slot < k_tile_items; slot += k_block) {
      const std::int64_t row = tiles.row(tile, slot), i = tiles.entry(tile, slot);
      if (row >= order.rows || i >= tiles.n)
        items[slot] = Item<U>::last();
      else
        items[slot] = given != nullptr ? given[row * tiles.n + i] : order.item(row, i);
    }
    sort_tile<Item<U>>(items, tiles.length);
    for (int slot = static_cast<int>(threadIdx.x); slot < k_tile_items; slot += k_block) {
      const std::int64_t row = tiles.row(tile, slot), i = tiles.entry(tile, slot);
      if (row >= order.rows || i >= tiles.n)
        continue;
      if (runs != nullptr)
        runs[row * tiles.n + i] = items[slot];
      else if (i < order.kept)
        order.write(row, i, items[slot].index());
    }
    __syncthreads();  // the next tile writes again
  }
}

/// Merges neighbouring runs of `run` items in rows of n; the last time results are written, where `to` is null.
template <class U>
__global__ void __launch_bounds__(k_block)
    merge_kernel(OrderRows<U> order, std::int64_t n, std::int64_t run, const Item<U>* from, Item<U>* to) {
  __shared__ Item<U> room[Slots<Item<U>>::k_room];
  __shared__ std::int64_t cuts[2];
  const Slots<Item<U>> items{room};
  const std::int64_t a_row = (n + k_tile_items - 1) / k_tile_items;
  for (std::int64_t tile = blockIdx.x; tile < order.rows * a_row; tile += gridDim.x) {
    const std::int64_t row = tile / a_row, first = (tile - row * a_row) * k_tile_items;
    const std::int64_t base = first / (2 * run) * 2 * run;
    const std::int64_t na = min(run, n - base), nb = max(std::int64_t{0}, min(run, n - base - na));
    const Item<U>*const a = from + row * n + base, *const b = a + na;
    const std::int64_t begin = first - base, end = min(begin + k_tile_items, na + nb);
    if (threadIdx.x < 2)
      cuts[threadIdx.x] = merge_cut(a, na, b, nb, threadIdx.x == 0 ? begin : end);
    __syncthreads();
    const std::int64_t skipped = begin - cuts[0];
    const int of_a = static_cast<int>(cuts[1] - cuts[0]), all = static_cast<int>(end - begin), of_b = all - of_a;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += k_block)
      items[i] = i < of_a ? a[cuts[0] + i] : b[skipped + i - of_a];
    __syncthreads();
    const int mine = min(static_cast<int>(threadIdx.x) * k_items_each, all);
    const int cut = merge_cut(items, of_a, items + of_a, of_b, mine), behind = mine - cut;
    Item<U> merged[k_items_each];
    merge_each<Item<U>>(items + cut, of_a - cut, items + of_a + behind, of_b - behind, merged);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < k_items_each; ++k) {
      if (mine + k < all)
        items[mine + k] = merged[k];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < all; i += k_block) {
      if (to != nullptr)
        to[row * n + first + i] = items[i];
      else if (first + i < order.kept)
        order.write(row, first + i, items[i].index());
    }
    __syncthreads();
  }
}

/// Finds, digit by digit from the highest, what the kept'th best of a row is; a block a row.
struct Digits {
  int* counts;  // shared, 256
  int* found;   // shared, 2: the digit, and how many are below it

  /// The digit that the `wanted`'th stands at, and in `wanted` how many of that digit are wanted; how many there are.
  template <class Count>
  __device__ std::int64_t next(std::int64_t& wanted, int& digit, const Count& count) const {
    counts[threadIdx.x] = 0;
    __syncthreads();
    count();
    __syncthreads();
    if (threadIdx.x == 0) {
      int below = 0, at = 0;
      while (at < 255 && below + counts[at] < wanted)
        below += counts[at++];
      found[0] = at;
      found[1] = below;
    }
    __syncthreads();
    digit = found[0];
    wanted -= found[1];
    const std::int64_t there = counts[digit];
    __syncthreads();
    return there;
  }
};
static_assert(k_block == 256);

/// The order.kept best of each row as items, in any order; of equal keys the first.
template <class U>
__global__ void __launch_bounds__(k_block) select_kernel(OrderRows<U> order, Item<U>* best) {
  __shared__ int counts[256], found[2];
  __shared__ int taken;
  const Digits digits{counts, found};
  for (std::int64_t row = blockIdx.x; row < order.rows; row += gridDim.x) {
    U prefix = 0, mask = 0;
    std::int64_t wanted = order.kept, there = order.n, last = order.n;
    for (int shift = static_cast<int>(order.bytes) * 8 - 8; shift >= 0 && there > wanted; shift -= 8) {
      int digit;
      there = digits.next(wanted, digit, [&] {
        for (std::int64_t i = threadIdx.x; i < order.n; i += k_block) {
          const U key = order.key(row, i, true);
          if ((key & mask) == prefix)
            atomicAdd(&counts[static_cast<int>(key >> shift & 255)], 1);
        }
      });
      prefix |= static_cast<U>(digit) << shift;
      mask |= U{255} << shift;
    }
    if (there > wanted) {  // of equal keys: those up to an entry, which is found in the same way
      last = 0;
      for (int shift = 24; shift >= 0; shift -= 8) {
        int digit;
        const std::int64_t high = last >> shift >> 8;
        digits.next(wanted, digit, [&] {
          for (std::int64_t i = threadIdx.x; i < order.n; i += k_block) {
            if (i >> shift >> 8 == high && order.key(row, i, true) == prefix)
              atomicAdd(&counts[static_cast<int>(i >> shift & 255)], 1);
          }
        });
        last |= static_cast<std::int64_t>(digit) << shift;
      }
    }
    if (threadIdx.x == 0)
      taken = 0;
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < order.n; i += k_block) {
      const U key = order.key(row, i, true), known = key & mask;
      if (known < prefix || (known == prefix && i <= last))
        best[row * order.kept + atomicAdd(&taken, 1)] = {key, static_cast<std::uint32_t>(i)};
    }
    __syncthreads();
  }
}

unsigned blocks_of(std::int64_t tiles) {
  return static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20));
}

/// In order, the first order.kept of n entries a row: of x, or of items.
template <class U>
void merge_order(const KernelCall& call, const OrderRows<U>& order, std::int64_t n, Item<U>* given) {
  const cudaStream_t stream = stream_of(call.queue);
  const Tiles tiles(order.rows, n);
  const bool cut = tiles.a_row > 1;
  const auto bytes = static_cast<std::size_t>(order.rows * n) * sizeof(Item<U>);
  const Workspace first(call.queue, cut ? bytes : 0), second(call.queue, cut && given == nullptr ? bytes : 0);
  Item<U>*from = first.as<Item<U>>(), *to = given != nullptr ? given : second.as<Item<U>>();
  sort_tiles_kernel<<<blocks_of(tiles.count), k_block, 0, stream>>>(order, tiles, given, cut ? from : nullptr);
  check_launch(call.op.name);
  for (std::int64_t run = k_tile_items; run < n; run *= 2) {
    merge_kernel<<<blocks_of(tiles.count), k_block, 0, stream>>>(order, n, run, from, 2 * run < n ? to : nullptr);
    check_launch(call.op.name);
    std::swap(from, to);
  }
}

template <class U>
void select_order(const KernelCall& call, const OrderRows<U>& order) {
  const Workspace best(call.queue, static_cast<std::size_t>(order.rows * order.kept) * sizeof(Item<U>));
  constexpr std::int64_t k_long = 1 << 17, k_few = 16;
  const bool by_many_blocks = order.n >= k_long && order.rows <= k_few;
  if constexpr (sizeof(U) > 2) {
    if (by_many_blocks)
      select_of_long_rows(call, order, best.as<Item<U>>());
  }
  if (!by_many_blocks) {
    select_kernel<<<blocks_of(order.rows), k_block, 0, stream_of(call.queue)>>>(order, best.as<Item<U>>());
    check_launch(call.op.name);
  }
  merge_order(call, order, order.kept, best.as<Item<U>>());
}

}  // namespace

void order_gpu(const OrderCall& order, const KernelCall& call) {
  constexpr std::int64_t k_long = 1 << 17, k_few = 16, k_very_long = 1 << 21, k_most_selected = 1 << 16;
  const bool few = order.n > k_tile_items && order.kept <= order.n / 4;
  const bool in_radix = order.n >= k_long && (order.rows() <= k_few || order.n >= k_very_long) &&
                        !(few && order.kept <= k_most_selected && order.rows() <= k_few);
  by_key_of_rows(order.dtype, order.n, [&]<class U>() {
    const OrderRows<U> rows(order);
    if (in_radix)
      sizeof(U) <= 4 ? radix_order_narrow(order, call) : radix_order_wide(order, call);
    else if (few)
      select_order(call, rows);
    else
      merge_order<U>(call, rows, order.n, nullptr);
  });
}

}  // namespace sluice::detail
