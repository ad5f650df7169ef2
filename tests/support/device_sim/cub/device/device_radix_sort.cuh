#pragma once

// CUB's sorts of keys and of pairs, for the simulated GPU: the calls that kernels of ours make.
#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/device_sim/device.h"

namespace cub {

struct DeviceRadixSort {
  /// What a sort of unsigned keys looks at.
  template <class Key>
  static Key bits_of(Key key, int begin, int end) {
    const auto above = static_cast<int>(sizeof(Key) * 8) - end;
    return static_cast<Key>(static_cast<Key>(key << above) >> above) >> begin;
  }

  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(
      void* scratch,
      std::size_t& bytes,
      const Key* keys,
      Key* sorted_keys,
      const Value* values,
      Value* sorted_values,
      Count count,
      int begin_bit = 0,
      int end_bit = sizeof(Key) * 8,
      cudaStream_t stream = nullptr) {
    if (scratch == nullptr) {
      bytes = 1;
      return cudaSuccess;
    }
    device_sim::launch(device_sim::Config(1, 1, 0, stream), [=] {
      std::vector<std::size_t> order(static_cast<std::size_t>(count));
      std::iota(order.begin(), order.end(), std::size_t{0});
      const auto seen = [=](std::size_t i) { return bits_of(keys[i], begin_bit, end_bit); };
      std::stable_sort(order.begin(), order.end(), [=](auto a, auto b) { return seen(a) < seen(b); });
      for (std::size_t i = 0; i < order.size(); ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
    return cudaSuccess;
  }

  template <class Key, class Count>
  static cudaError_t SortKeys(
      void* scratch,
      std::size_t& bytes,
      const Key* keys,
      Key* sorted_keys,
      Count count,
      int begin_bit = 0,
      int end_bit = sizeof(Key) * 8,
      cudaStream_t stream = nullptr) {
    if (scratch == nullptr) {
      bytes = 1;
      return cudaSuccess;
    }
    device_sim::launch(device_sim::Config(1, 1, 0, stream), [=] {
      std::copy_n(keys, count, sorted_keys);
      std::stable_sort(sorted_keys, sorted_keys + count, [=](Key a, Key b) {
        return bits_of(a, begin_bit, end_bit) < bits_of(b, begin_bit, end_bit);
      });
    });
    return cudaSuccess;
  }
};

}  // namespace cub
