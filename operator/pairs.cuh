#pragma once

// Vectors of half types to numbers and back: bfloat16 is widened by words, half types are rounded two neighbours at a
// time. The same bits as one by one, in fewer instructions.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <sluice/ndarray/half.h>
#include <sluice/ndarray/neighbours.cuh>

namespace sluice::detail {

template <class T, int V>
inline constexpr bool k_pairs_of_half = (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>)&&V % 2 == 0;

template <class T, class C, int V>
__device__ void widen(Neighbours<T, V> from, C (&to)[V]) {
  if constexpr (std::is_same_v<T, BFloat16> && V % 2 == 0) {
    std::uint32_t words[V / 2];
    std::memcpy(words, &from, sizeof(words));
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const std::uint32_t bits = j % 2 == 0 ? words[j / 2] << 16 : words[j / 2] & 0xffff0000u;
      std::memcpy(&to[j], &bits, sizeof(bits));
    }
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j)
      to[j] = static_cast<C>(from.at[j]);
  }
}

#ifdef __CUDA_ARCH__
__device__ inline void narrow_pair(float a, float b, BFloat16* to) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  std::memcpy(to, &pair, sizeof(pair));
}
__device__ inline void narrow_pair(float a, float b, Half* to) {
  const __half2 pair = __floats2half2_rn(a, b);
  std::memcpy(to, &pair, sizeof(pair));
}
#endif
template <class C, class T, int V>
__device__ void narrow(const C (&from)[V], Neighbours<T, V>& to) {
#pragma unroll
  for (int j = 0; j < V; ++j) {
#ifdef __CUDA_ARCH__
    if constexpr (k_pairs_of_half<T, V>) {
      if (j % 2 == 0)
        narrow_pair(from[j], from[j + 1], &to.at[j]);
      continue;
    }
#endif
    to.at[j] = static_cast<T>(from[j]);
  }
}

/// A vector of 16 bytes by one access of shared memory: element by element they are many, in each of which the lanes of
/// a warp meet in a quarter of the banks.
template <class Vector>
__device__ Vector whole_vector(const Vector* at) {
  using Words = Neighbours<std::uint32_t, 4>;
  static_assert(sizeof(Vector) == sizeof(Words));
  const Words words = *reinterpret_cast<const Words*>(at);
  Vector vector;
  std::memcpy(static_cast<void*>(&vector), &words, sizeof(vector));
  return vector;
}

}  // namespace sluice::detail
