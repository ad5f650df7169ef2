#pragma once

// The largest element and the sum of exponentials of a row in one pass (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018).
#include <cmath>
#include <limits>

#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/row_kernel.cuh>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/times_plus.h>

namespace sluice::detail {

template <class C>
struct MaxSum {
  C largest;
  C sum;  // of exp(x - largest)
};

template <class C>
__device__ C negative_infinity() {
  return -std::numeric_limits<C>::infinity();
}

/// e^x of what no number above 0 can be, for results of type T: for half types by the instruction for powers of two,
/// off by 2^-21 of the result near 0 and 2^-17 near -80, where half types round at 2^-9 and 2^-12; less than 2^-126 is
/// 0.
template <class T, class C>
__device__ C power_of_e(C x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.442695040888963407F));
    return power;
  }
#endif
  return std::exp(x);
}

/// exp(value - largest), 0 for nothing at all: -inf against -inf is not NaN here.
template <class T, class C>
__device__ C scale_to(C value, C largest) {
  return value == negative_infinity<C>() ? C{0} : power_of_e<T>(value - largest);
}

/// Row operators with that as their total. A NaN in the row ends up in the sum.
template <class T, bool Writes>
struct MaxSumRow : RowOperands<T, 1, Writes> {
  using C = Compute<T>;
  using Total = MaxSum<C>;

  __device__ Total start(std::int64_t) const { return {negative_infinity<C>(), C{0}}; }
  template <int V>
  __device__ void take(Total& total, const RowValues<C, 1, V>& values, std::int64_t) const {
    C largest = total.largest;
#pragma unroll
    for (int j = 0; j < V; ++j)
      largest = std::fmax(largest, values.at[0][j]);  // a NaN is seen in the sum
    total.sum *= scale_to<T>(total.largest, largest);
    const C beside = largest == negative_infinity<C>() ? C{0} : largest;
#pragma unroll
    for (int j = 0; j < V; ++j)
      total.sum = plus(total.sum, power_of_e<T>(values.at[0][j] - beside));
    total.largest = largest;
  }
  // The larger one's sum stays as it is. Not contracted, so that both lanes of a pair get the same: a + b is b + a.
  __device__ Total join(const Total& a, const Total& b) const {
    const bool first = a.largest > b.largest;
    const Total &more = first ? a : b, &less = first ? b : a;
    return {more.largest, plus(more.sum, less.sum * scale_to<T>(less.largest, more.largest))};
  }
};

}  // namespace sluice::detail
