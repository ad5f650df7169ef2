#pragma once

#include <cstdint>
#include <type_traits>

#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/neighbours.cuh>

// Neighbours of arrays whose type is known when a kernel runs, as the floats that it computes with: one kernel for all
// types.
namespace sluice::detail {

template <class T, int V, class C>
__device__ inline void load_of(const void* from, std::int64_t i, C (&to)[V]) {
  const auto values = *reinterpret_cast<const Neighbours<T, V>*>(static_cast<const T*>(from) + i);
#pragma unroll
  for (int j = 0; j < V; ++j)
    to[j] = static_cast<C>(values.at[j]);
}

template <class T, int V, class C>
__device__ inline void store_of(void* to, std::int64_t i, const C (&from)[V]) {
  Neighbours<T, V> values;
#pragma unroll
  for (int j = 0; j < V; ++j)
    values.at[j] = static_cast<T>(from[j]);
  *reinterpret_cast<Neighbours<T, V>*>(static_cast<T*>(to) + i) = values;
}

/// Elements i to i + V of an array of a floating type that C computes for.
template <int V, class C>
__device__ inline void load_floats(DType dtype, const void* from, std::int64_t i, C (&to)[V]) {
  if constexpr (std::is_same_v<C, double>) {
    load_of<double>(from, i, to);
  } else if (dtype == DType::float32) {
    load_of<float>(from, i, to);
  } else if (dtype == DType::float16) {
    load_of<Half>(from, i, to);
  } else {
    load_of<BFloat16>(from, i, to);
  }
}

template <int V, class C>
__device__ inline void store_floats(DType dtype, void* to, std::int64_t i, const C (&from)[V]) {
  if constexpr (std::is_same_v<C, double>) {
    store_of<double>(to, i, from);
  } else if (dtype == DType::float32) {
    store_of<float>(to, i, from);
  } else if (dtype == DType::float16) {
    store_of<Half>(to, i, from);
  } else {
    store_of<BFloat16>(to, i, from);
  }
}

/// What of an array's value survives in its type.
__device__ inline float rounded_as(DType dtype, float value) {
  return dtype == DType::float16    ? static_cast<float>(static_cast<Half>(value))
         : dtype == DType::bfloat16 ? static_cast<float>(static_cast<BFloat16>(value))
                                    : value;
}

}  // namespace sluice::detail
