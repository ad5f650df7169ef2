#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>

// Elements of every type as whole numbers in the same order: what is sorted, on CPU and GPU.
namespace sluice::detail {

/// Keys of elements that are at most as wide as U: the smallest comes first, or the largest. A NaN is the largest.
template <class U>
struct KeyRule {
  U sign = 0;      // the highest bit of an element; of unsigned ones 0
  U infinity = 0;  // bits of an infinite one; 0 of whole numbers
  U ones = 0;      // all bits of an element
  bool descending = false;

  KeyRule() = default;
  KeyRule(DType dtype, bool downwards) noexcept : descending(downwards) {
    const auto bits = static_cast<int>(8 * size_of(dtype));
    ones = static_cast<U>(~std::uint64_t{0} >> (64 - bits));
    if (dtype != DType::bool_ && !is_unsigned(dtype))
      sign = static_cast<U>(std::uint64_t{1} << (bits - 1));
    if (is_floating(dtype)) {
      const int mantissa = dtype == DType::float16 ? 10 : dtype == DType::bfloat16 ? 7 : bits == 32 ? 23 : 52;
      infinity = static_cast<U>((ones ^ sign) >> mantissa << mantissa);
    }
  }

  /// `same_zeros`: both are one key, and the element cannot be had back of it.
  SLUICE_HD U key(U bits, bool same_zeros) const noexcept {
    U key = bits ^ sign;
    if (infinity != 0) {
      const U magnitude = bits & static_cast<U>(~sign);
      if (magnitude > infinity)
        key = ones;
      else if ((bits & sign) != 0)
        key = same_zeros && magnitude == 0 ? sign : static_cast<U>(bits ^ ones);
    }
    return static_cast<U>(descending ? key ^ ones : key);
  }
  /// The element of a key; one of the NaNs for theirs.
  SLUICE_HD U bits(U key) const noexcept {
    key = static_cast<U>(descending ? key ^ ones : key);
    return static_cast<U>(infinity != 0 && (key & sign) == 0 ? key ^ ones : key ^ sign);
  }
};

/// A key and where it stood; equal keys stay in that order.
template <class U>
struct Item;

/// Of rows of at most k_most_narrow elements.
template <>
struct Item<std::uint16_t> {
  static constexpr std::int64_t k_most_narrow = 0xffff;
  std::uint32_t both;

  Item() = default;
  SLUICE_HD static Item last() noexcept { return {std::uint16_t{0xffff}, 0xffff}; }
  SLUICE_HD Item(std::uint16_t key, std::uint32_t index) noexcept : both(std::uint32_t{key} << 16 | index) {}
  SLUICE_HD std::uint16_t key() const noexcept { return static_cast<std::uint16_t>(both >> 16); }
  SLUICE_HD std::uint32_t index() const noexcept { return both & 0xffff; }
  SLUICE_HD friend bool operator<(const Item& a, const Item& b) noexcept { return a.both < b.both; }
};

template <>
struct Item<std::uint32_t> {
  std::uint64_t both;

  Item() = default;
  /// Behind all others.
  SLUICE_HD static Item last() noexcept { return {~std::uint32_t{0}, ~std::uint32_t{0}}; }
  SLUICE_HD Item(std::uint32_t key, std::uint32_t index) noexcept : both(std::uint64_t{key} << 32 | index) {}
  SLUICE_HD std::uint32_t key() const noexcept { return static_cast<std::uint32_t>(both >> 32); }
  SLUICE_HD std::uint32_t index() const noexcept { return static_cast<std::uint32_t>(both); }
  SLUICE_HD friend bool operator<(const Item& a, const Item& b) noexcept { return a.both < b.both; }
};

template <>
struct alignas(16) Item<std::uint64_t> {
  std::uint64_t low, high;

  Item() = default;
  SLUICE_HD static Item last() noexcept { return {~std::uint64_t{0}, ~std::uint32_t{0}}; }
  SLUICE_HD Item(std::uint64_t key, std::uint32_t index) noexcept : low(index), high(key) {}
  SLUICE_HD std::uint64_t key() const noexcept { return high; }
  SLUICE_HD std::uint32_t index() const noexcept { return static_cast<std::uint32_t>(low); }
  SLUICE_HD friend bool operator<(const Item& a, const Item& b) noexcept {
    return a.high < b.high || (a.high == b.high && a.low < b.low);
  }
};

/// The smaller one first.
template <class T>
SLUICE_HD void put_in_order(T& a, T& b) noexcept {
  const bool turn = b < a;
  const T low = turn ? b : a;
  b = turn ? a : b;
  a = low;
}

/// Calls f.operator()<U>() with the type of keys for elements of `dtype`.
template <class F>
void by_key(DType dtype, F&& f) {
  if (size_of(dtype) <= 4)
    f.template operator()<std::uint32_t>();
  else
    f.template operator()<std::uint64_t>();
}

/// The same with narrower ones where the elements and the places in rows of n are.
template <class F>
void by_key_of_rows(DType dtype, std::int64_t n, F&& f) {
  if (size_of(dtype) <= 2 && n <= Item<std::uint16_t>::k_most_narrow)
    f.template operator()<std::uint16_t>();
  else
    by_key(dtype, f);
}

/// Element i of an array of elements of `bytes` bytes.
template <class U>
SLUICE_HD U load_bits(const void* x, std::size_t bytes, std::int64_t i) noexcept {
  if constexpr (sizeof(U) == 8) {
    return static_cast<const std::uint64_t*>(x)[i];
  } else {
    if constexpr (sizeof(U) == 4) {
      if (bytes == 4)
        return static_cast<const std::uint32_t*>(x)[i];
    }
    return bytes == 2 ? static_cast<const std::uint16_t*>(x)[i] : static_cast<const std::uint8_t*>(x)[i];
  }
}
template <class U>
SLUICE_HD void store_bits(void* y, std::size_t bytes, std::int64_t i, U bits) noexcept {
  if constexpr (sizeof(U) == 8) {
    static_cast<std::uint64_t*>(y)[i] = bits;
  } else if (bytes == 4) {
    static_cast<std::uint32_t*>(y)[i] = bits;
  } else if (bytes == 2) {
    static_cast<std::uint16_t*>(y)[i] = static_cast<std::uint16_t>(bits);
  } else {
    static_cast<std::uint8_t*>(y)[i] = static_cast<std::uint8_t>(bits);
  }
}

/// One call: the first `kept` entries of each row in order, their values, indices, or both.
struct OrderCall {
  const void* x;
  void* values;           // null: not wanted
  std::int64_t* indices;  // the same
  DType dtype;
  std::int64_t outer, n, inner, kept;
  bool descending;

  std::int64_t rows() const noexcept { return outer * inner; }
};

void order_cpu(const OrderCall& order, const KernelCall& call);
/// False, and nothing done, where rows are too long for it or too few. `grain`: rows that are worth a worker.
bool order_short_cpu(const OrderCall& order, std::int64_t grain);
void order_gpu(const OrderCall& order, const KernelCall& call);

}  // namespace sluice::detail
