#pragma once

// Few very long rows, one after the other, by CUB's radix sort of keys, or of keys and the places where they stood.
#include <cstddef>
#include <cstdint>

#include <cub/device/device_radix_sort.cuh>

#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/order_cuda.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

template <class U>
__global__ void __launch_bounds__(k_block)
    row_keys_kernel(OrderRows<U> order, std::int64_t row, U* keys, std::uint32_t* places) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < order.n; i += step) {
    keys[i] = order.key(row, i, places != nullptr);
    if (places != nullptr)
      places[i] = static_cast<std::uint32_t>(i);
  }
}

template <class U>
__global__ void __launch_bounds__(k_block)
    write_row_kernel(OrderRows<U> order, std::int64_t row, const U* keys, const std::uint32_t* places) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < order.kept; i += step) {
    if (places != nullptr)
      order.write(row, i, places[i]);
    else
      store_bits<U>(order.values, order.bytes, order.base(row, order.kept) + i * order.inner, order.rule.bits(keys[i]));
  }
}

template <class U>
void sort_by_radix(const KernelCall& call, const RadixSort<U>& s) {
  const cudaStream_t stream = stream_of(call.queue);
  std::size_t bytes = 0;
  const auto run = [&](void* scratch) {
    cuda::cuda_check(
        s.carried != nullptr ? cub::DeviceRadixSort::SortPairs(
                                   scratch, bytes, s.keys, s.sorted, s.carried, s.moved, s.n, 0, s.bits, stream)
                             : cub::DeviceRadixSort::SortKeys(scratch, bytes, s.keys, s.sorted, s.n, 0, s.bits, stream),
        "cub::DeviceRadixSort");
  };
  run(nullptr);
  const Workspace scratch(call.queue, bytes);
  run(scratch.data());
}

template <class U>
void radix_order(const OrderCall& given, const KernelCall& call) {
  const OrderRows<U> order(given);
  const cudaStream_t stream = stream_of(call.queue);
  const std::int64_t n = order.n;
  const auto count = static_cast<std::size_t>(n);
  const bool placed = order.indices != nullptr;
  const Workspace words(call.queue, 2 * count * sizeof(U)), numbers(call.queue, placed ? 2 * count * 4 : 0);
  U *const keys = words.as<U>(), *const sorted = keys + n;
  auto* const places = numbers.as<std::uint32_t>();
  std::uint32_t* const moved = placed ? places + n : nullptr;
  const int bits = static_cast<int>(8 * order.bytes);
  for (std::int64_t row = 0; row < order.rows; ++row) {
    row_keys_kernel<<<blocks_for(n), k_block, 0, stream>>>(order, row, keys, places);
    check_launch(call.op.name);
    radix_sort(call, RadixSort<U>{keys, sorted, places, moved, n, bits});
    write_row_kernel<<<blocks_for(order.kept), k_block, 0, stream>>>(order, row, sorted, moved);
    check_launch(call.op.name);
  }
}

}  // namespace sluice::detail
