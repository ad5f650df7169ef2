#pragma once

// The kernels around a fused program, compiled by NVRTC after the program: see source.cpp. They walk as the kernels of
// single operators do (elementwise/pointwise_cuda.cuh, tiles.cuh), with any number of operands and results.
#ifdef __CUDACC_RTC__

#include <cstdint>
#include <type_traits>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/start_early.cuh>
#include <sluice/operator/elementwise/rows.h>

namespace sluice::fused {

using detail::Compute;
using detail::Neighbours;

// Each call of a program has to round as its own kernel does, which the compiler is free to spoil at two places:
// - It might learn from one call about another (a product is there already, two operands are equal) and then choose
//   otherwise which product of a call becomes part of a fused multiply-add. So no call knows where its operands are
//   from.
// - A product that ends a call and a sum that begins the next one might become one fused multiply-add, also behind the
//   first half of the compiler. So sums and products that are whole calls are written as what is never fused, and what
//   is left (see source.cpp) passes by an operation that only the launch knows to change nothing.

/// The same value, of which the compiler's first half knows nothing. `use` tells one reading from another. Costs no
/// instruction.
template <int use, class T>
__device__ T apart(T value) {
  if constexpr (std::is_same_v<T, float>)
    asm("" : "+f"(value) : "n"(use));
  else if constexpr (std::is_same_v<T, double>)
    asm("" : "+d"(value) : "n"(use));
  return value;
}

/// The bits of numbers beside arrays, each of the type that it is computed with in.
template <int N>
struct Numbers {
  std::uint64_t zero;  // always
  std::uint64_t bits[N];

  template <int use, class T>
  __device__ T as(int which) const {
    if constexpr (std::is_same_v<T, bool>) {
      return (bits[which] & 0xff) != 0;
    } else if constexpr (std::is_same_v<T, float>) {
      return apart<use>(std::bit_cast<float>(static_cast<std::uint32_t>(bits[which])));
    } else if constexpr (std::is_same_v<T, double>) {
      return apart<use>(std::bit_cast<double>(bits[which]));
    } else {
      return static_cast<T>(bits[which]);
    }
  }

  /// The same value, of which neither half knows anything.
  template <class T>
  __device__ T sealed(T value) const {
    if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ static_cast<std::uint32_t>(zero));
    } else {
      return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ static_cast<std::uint32_t>(zero));
    }
  }
};

/// An operand that is an element, as what is computed with.
template <int use, class T>
__device__ Compute<T> read(T element) {
  return apart<use>(static_cast<Compute<T>>(element));
}

// The rows add, subtract, multiply and square, never a part of something fused.
template <class T>
__device__ T add(T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return __fadd_rn(a, b);
  else if constexpr (std::is_same_v<T, double>)
    return __dadd_rn(a, b);
  else
    return math::wrapping_add(a, b);
}
template <class T>
__device__ T subtract(T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return __fsub_rn(a, b);
  else if constexpr (std::is_same_v<T, double>)
    return __dsub_rn(a, b);
  else
    return math::wrapping_subtract(a, b);
}
template <class T>
__device__ T multiply(T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return __fmul_rn(a, b);
  else if constexpr (std::is_same_v<T, double>)
    return __dmul_rn(a, b);
  else
    return math::wrapping_multiply(a, b);
}
template <class T>
__device__ T square(T x) {
  return multiply(x, x);
}

/// Division by a number known at launch: Divider of ndarray/strided.cuh.
struct Divider {
  std::uint32_t divisor, multiplier, shift;
  __device__ std::int32_t divide(std::int32_t n) const {
    const auto numerator = static_cast<std::uint32_t>(n);
    return static_cast<std::int32_t>((__umulhi(numerator, multiplier) + numerator) >> shift);
  }
};

inline constexpr int k_axes = 8;

/// How K operands lie: Layout of fused/layout.h. The results come first.
template <int K>
struct Layout {
  std::int32_t size;            // vectors, or elements of a stream
  std::int32_t total, streams;  // of streams: all elements; how many streams
  std::int32_t ndim;
  std::uint32_t repeated;  // bits: operands that are one element for all of a vector
  Divider extents[k_axes];
  std::int32_t next[K];  // from a thread's element to its next one, of streams
  std::int32_t strides[K][k_axes];

  __device__ void offsets(std::int32_t linear, std::int32_t (&of)[K]) const {
#pragma unroll
    for (int k = 0; k < K; ++k)
      of[k] = 0;
#pragma unroll
    for (int step = 0; step < k_axes; ++step) {
      const int axis = ndim - 1 - step;
      if (axis < 0)
        break;
      const std::int32_t quotient = axis == 0 ? 0 : extents[axis].divide(linear);
      const std::int32_t rest = linear - quotient * static_cast<std::int32_t>(extents[axis].divisor);
#pragma unroll
      for (int k = 0; k < K; ++k)
        of[k] += rest * strides[k][axis];
      linear = quotient;
    }
  }
};

template <int K>
struct Pointers {
  void* at[K];
};

__device__ inline std::int32_t first_index() {
  return static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
}
__device__ inline std::int32_t index_step() {
  return static_cast<std::int32_t>(gridDim.x * blockDim.x);
}

template <int V, class T>
__device__ Neighbours<T, V> read_vector(const void* data, std::int32_t offset, bool repeated) {
  const T* const from = static_cast<const T*>(data) + offset;
  if (!repeated)
    return *reinterpret_cast<const Neighbours<T, V>*>(from);
  Neighbours<T, V> values;
  const T value = *from;
#pragma unroll
  for (int j = 0; j < V; ++j)
    values.at[j] = value;
  return values;
}

template <int V, class T>
__device__ void write_vector(void* data, std::int32_t offset, const Neighbours<T, V>& values) {
  *reinterpret_cast<Neighbours<T, V>*>(static_cast<T*>(data) + offset) = values;
}

/// U elements that lie `next` apart, of which `count` are there.
template <int U, class T>
__device__ Neighbours<T, U> read_several(const void* data, std::int32_t offset, std::int32_t next, int count) {
  const T* const from = static_cast<const T*>(data) + offset;
  Neighbours<T, U> values = {};
#pragma unroll
  for (int j = 0; j < U; ++j) {
    if (j < count)
      values.at[j] = from[j * next];
  }
  return values;
}

template <int U, class T>
__device__ void write_several(
    void* data, std::int32_t offset, std::int32_t next, int count, const Neighbours<T, U>& values) {
  T* const to = static_cast<T*>(data) + offset;
#pragma unroll
  for (int j = 0; j < U; ++j) {
    if (j < count)
      to[j * next] = values.at[j];
  }
}

}  // namespace sluice::fused

#endif
