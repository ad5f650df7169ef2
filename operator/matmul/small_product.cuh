#pragma once

// What the kernels for small products are told.
#include <cstdint>

#include <sluice/operator/floating.h>
#include <sluice/operator/matmul/gemm.h>

namespace sluice::detail {

/// One operand: elements (outer, depth), where outer is a row of a or a column of b.
template <class T>
struct Operand {
  const T* data;
  std::int64_t outer_stride, depth_stride, batch_stride;
  int outer;
};

template <class T>
struct SmallProduct {
  Operand<T> a, b;
  T* c;
  std::int64_t c_row, c_batch;
  int depth;
  const T* bias;  // of columns, may be null
  T* row_sums;    // may be null: see add_rows
  const T* mask;  // may be null: see GemmProblem
  bool relu, accumulate;
};

template <class T>
__device__ bool is_masked(const SmallProduct<T>& p, std::int64_t place) {
  return p.mask != nullptr && static_cast<Compute<T>>(p.mask[place]) <= Compute<T>(0);
}
/// A sum with all that follows it.
template <class T>
__device__ T finished(const SmallProduct<T>& p, Compute<T> sum, Compute<T> old, Compute<T> bias, bool masked) {
  using Acc = Compute<T>;
  if (p.accumulate)
    sum += old;
  if (p.bias != nullptr)
    sum += bias;
  return T(masked || (p.relu && sum <= Acc(0)) ? Acc(0) : sum);  // NaN stays
}

/// Both extents of c that a block of the first has, and the most terms of a sum that the second takes.
inline constexpr int k_split_tile = 8, k_flat_depth = 16;
/// The kernel for products of few results, cut along k; that for products of a few terms, without sums of rows.
template <class T>
void launch_split_product(const Queue& queue, const SmallProduct<T>& product, std::int64_t batch);
template <class T>
void launch_flat_product(const Queue& queue, const SmallProduct<T>& product, std::int64_t batch);

}  // namespace sluice::detail
