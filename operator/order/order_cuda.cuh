#pragma once

// Rows in order on a GPU, as items: keys with the places where they stood, all of them different.
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/order/keys.h>

namespace sluice::detail {

inline constexpr int k_items_each = 8, k_tile_items = k_block * k_items_each;

/// An OrderCall in device code.
template <class U>
struct OrderRows {
  const void* x;
  void* values;
  std::int64_t* indices;
  std::size_t bytes;  // of an element
  std::int64_t rows, n, inner, kept;
  KeyRule<U> rule;

  explicit OrderRows(const OrderCall& order)
      : x(order.x),
        values(order.values),
        indices(order.indices),
        bytes(size_of(order.dtype)),
        rows(order.rows()),
        n(order.n),
        inner(order.inner),
        kept(order.kept),
        rule(order.dtype, order.descending) {}

  /// The first entry of a row of `entries`.
  SLUICE_HD std::int64_t base(std::int64_t row, std::int64_t entries) const {
    return inner == 1 ? row * entries : row / inner * entries * inner + row % inner;
  }
  __device__ U key(std::int64_t row, std::int64_t i, bool same_zeros) const {
    return rule.key(load_bits<U>(x, bytes, base(row, n) + i * inner), same_zeros);
  }
  __device__ Item<U> item(std::int64_t row, std::int64_t i) const {
    return {key(row, i, true), static_cast<std::uint32_t>(i)};
  }
  /// Entry i of the result comes from entry `from`.
  __device__ void write(std::int64_t row, std::int64_t i, std::int64_t from) const {
    const std::int64_t at = base(row, kept) + i * inner;
    if (indices != nullptr)
      indices[at] = from;
    if (values != nullptr)
      store_bits<U>(values, bytes, at, load_bits<U>(x, bytes, base(row, n) + from * inner));
  }
};

/// Items in shared memory, with a gap behind each k_items_each: threads that go along as many each meet in no bank.
template <class T>
struct Slots {
  T* items;
  int first = 0;

  static constexpr int k_room = k_tile_items + k_block;

  __device__ T& operator[](int i) const { return items[first + i + (first + i) / k_items_each]; }
  __device__ Slots operator+(int i) const { return {items, first + i}; }
};

/// How many of the first `count` of two sorted rows, merged, are of the first one, of na items.
template <class Row, class I>
__device__ I merge_cut(const Row& a, I na, const Row& b, I nb, I count) {
  I low = count > nb ? count - nb : I{0}, high = count < na ? count : na;
  while (low < high) {
    const I middle = low + (high - low) / 2;
    if (b[count - 1 - middle] < a[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// The next k_items_each items of two sorted rows merged.
template <class T>
__device__ void merge_each(const Slots<T>& a, int na, const Slots<T>& b, int nb, T (&merged)[k_items_each]) {
  int i = 0, j = 0;
#pragma unroll
  for (int k = 0; k < k_items_each; ++k) {
    const bool first = i < na && (j >= nb || !(b[j] < a[i]));
    merged[k] = first ? a[i] : j < nb ? b[j] : T::last();
    i += first ? 1 : 0;
    j += first ? 0 : 1;
  }
}

/// Sorts runs of `length` items, at most k_warp * k_items_each, that a warp keeps, k_items_each a lane in order:
/// Batcher's bitonic sort, each step towards the same end.
template <class T>
__device__ void sort_in_warp(T (&own)[k_items_each], int length) {
  const int lane = static_cast<int>(threadIdx.x) % k_warp;
  const auto keep = [&](T& mine, const T& other, int bit) {
    const bool turn = (lane & bit) == 0 ? other < mine : mine < other;
    mine = turn ? other : mine;
  };
#pragma unroll
  for (int lanes = 2; lanes <= k_warp; lanes *= 2) {
    if (lanes * k_items_each > length)
      return;
    T other[k_items_each];
#pragma unroll
    for (int k = 0; k < k_items_each; ++k)
      other[k] = shuffle_xor(own[k_items_each - 1 - k], lanes - 1);
#pragma unroll
    for (int k = 0; k < k_items_each; ++k)
      keep(own[k], other[k], lanes / 2);
#pragma unroll
    for (int beside = lanes / 4; beside > 0; beside /= 2) {
#pragma unroll
      for (int k = 0; k < k_items_each; ++k)
        keep(own[k], shuffle_xor(own[k], beside), beside);
    }
#pragma unroll
    for (int beside = k_items_each / 2; beside > 0; beside /= 2) {
#pragma unroll
      for (int k = 0; k < k_items_each; ++k) {
        if ((k & beside) == 0)
          put_in_order(own[k], own[k + beside]);
      }
    }
  }
}

/// Sorts runs of `length` items of a block's tile, k_items_each times a power of two. All threads call.
template <class T>
__device__ void sort_tile(const Slots<T>& items, int length) {
  T own[k_items_each];
  const int from = static_cast<int>(threadIdx.x) * k_items_each;
  const Slots<T> mine = items + from;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < k_items_each; ++k)
    own[k] = mine[k];
#pragma unroll
  for (int round = 0; round < k_items_each; ++round) {
#pragma unroll
    for (int k = round % 2; k + 1 < k_items_each; k += 2) {
      put_in_order(own[k], own[k + 1]);
    }
  }
  constexpr bool k_warps = sizeof(T) == 4;  // a shuffle an item, not two
  if constexpr (k_warps)
    sort_in_warp(own, length);
#pragma unroll
  for (int k = 0; k < k_items_each; ++k)
    mine[k] = own[k];
  __syncthreads();
  for (int run = k_items_each * (k_warps ? k_warp : 1); run < length; run *= 2) {
    const int base = from / (2 * run) * 2 * run;
    const Slots<T> a = items + base, b = a + run;
    const int cut = merge_cut(a, run, b, run, from - base), behind = from - base - cut;
    merge_each(a + cut, run - cut, b + behind, run - behind, own);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < k_items_each; ++k)
      mine[k] = own[k];
    __syncthreads();
  }
}

/// What goes with keys, or null, is sorted by the lowest `bits` of these; equal ones stay in their order.
template <class U>
struct RadixSort {
  const U* keys;
  U* sorted;
  const std::uint32_t* carried;
  std::uint32_t* moved;
  std::int64_t n;
  int bits;
};
void radix_sort(const KernelCall& call, const RadixSort<std::uint32_t>& sort);
void radix_sort(const KernelCall& call, const RadixSort<std::uint64_t>& sort);

/// The order.kept best of each of few long rows as items, in any order; of equal keys the first.
void select_of_long_rows(const KernelCall& call, const OrderRows<std::uint32_t>& order, Item<std::uint32_t>* best);
void select_of_long_rows(const KernelCall& call, const OrderRows<std::uint64_t>& order, Item<std::uint64_t>* best);

/// In order, few long rows one after the other by radix sort.
void radix_order_narrow(const OrderCall& order, const KernelCall& call);
void radix_order_wide(const OrderCall& order, const KernelCall& call);

}  // namespace sluice::detail
