#pragma once

// What the softmax kernels share: the rows of an array along one axis, and the largest element with the sum of
// exponentials of a row in one pass (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
#include <cmath>
#include <cstdint>
#include <limits>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/softmax/kernels.h>

namespace sluice::detail {

/// n elements `step` apart, for each of `count` rows. A group of `width` threads shares a row: many for rows of
/// neighbours, one for columns, where the next thread has the next column.
struct RowShape {
  std::int64_t count = 0;
  std::int64_t n = 0;
  std::int64_t step = 1;
  int width = k_warp;

  explicit RowShape(const AxisLayout& at)
      : count(at.outer * at.inner),
        n(at.n),
        step(at.inner),
        width(
            at.inner > 1   ? 1
            : at.n <= 1024 ? k_warp
                           : k_group_block) {}

  __device__ std::int64_t offset(std::int64_t row) const { return row / step * n * step + row % step; }
  unsigned blocks() const noexcept { return blocks_for_groups(count, width); }
  /// Rows can be read in vectors of V elements.
  template <class... Pointer>
  bool in_vectors(int V, const Pointer*... pointers) const noexcept {
    return step == 1 && n % V == 0 && ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
  }
};

/// Calls f.operator()<P>() with the number of vectors that each thread of a group keeps of a row in registers; false if
/// they are too many.
template <class F>
bool by_kept_vectors(const RowShape& rows, int V, F&& f) {
  const std::int64_t needed = (rows.n / V + rows.width - 1) / rows.width;
  if (needed <= 1)
    f.template operator()<1>();
  else if (needed <= 2)
    f.template operator()<2>();
  else if (needed <= 4)
    f.template operator()<4>();
  else if (needed <= 8)
    f.template operator()<8>();
  return needed <= 8;
}

template <class C>
struct MaxSum {
  C largest;
  C sum;  // of exp(x - largest)
};

template <class C>
__device__ MaxSum<C> shuffle_xor(const MaxSum<C>& value, int lanes) {
  return {__shfl_xor_sync(0xffffffffu, value.largest, lanes), __shfl_xor_sync(0xffffffffu, value.sum, lanes)};
}

template <class C>
__device__ C negative_infinity() {
  return -std::numeric_limits<C>::infinity();
}

/// exp(value - largest), 0 for nothing at all: -inf against -inf is not NaN here.
template <class C>
__device__ C scale_to(C value, C largest) {
  return value == negative_infinity<C>() ? C{0} : std::exp(value - largest);
}

template <class C>
__device__ MaxSum<C> join_max_sum(const MaxSum<C>& a, const MaxSum<C>& b) {
  const C largest = a.largest > b.largest ? a.largest : b.largest;
  return {largest, a.sum * scale_to(a.largest, largest) + b.sum * scale_to(b.largest, largest)};
}

/// Largest element and sum of exponentials of a row; every thread of the group gets them. A NaN in the row ends up in
/// the sum.
template <int V, class T>
__device__ MaxSum<Compute<T>> row_max_sum(const T* x, std::int64_t n, std::int64_t step, int lane, int width) {
  using C = Compute<T>;
  MaxSum<C> total{negative_infinity<C>(), C{0}};
  for (std::int64_t i = lane; i < n / V; i += width) {
    Neighbours<T, V> values;
    if constexpr (V == 1) {
      values.at[0] = x[i * step];
    } else {
      values = reinterpret_cast<const Neighbours<T, V>*>(x)[i];
    }
    C largest = total.largest;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C value = static_cast<C>(values.at[j]);
      largest = value > largest ? value : largest;
    }
    total.sum *= scale_to(total.largest, largest);
#pragma unroll
    for (int j = 0; j < V; ++j)
      total.sum += scale_to(static_cast<C>(values.at[j]), largest);
    total.largest = largest;
  }
  return join_group(total, width, [](const MaxSum<C>& a, const MaxSum<C>& b) { return join_max_sum(a, b); });
}

}  // namespace sluice::detail
