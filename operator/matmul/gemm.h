#pragma once

#include <cstdint>

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// A matrix, or a batch of them: strides in elements, any sign.
struct Matrix {
  void* data = nullptr;
  std::int64_t row = 0;     // stride between rows
  std::int64_t column = 0;  // stride between columns
  std::int64_t batch = 0;   // stride between matrices
};

/// c = relu(a b + biases) for matrices of one type, batch by batch: a (m, k), b (k, n), c (m, n).
struct GemmProblem {
  DType dtype = DType::float32;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  Matrix a = {}, b = {}, c = {};
  const void* row_bias = nullptr;     // (m,), of dtype
  const void* column_bias = nullptr;  // (n,), of dtype
  bool relu = false;
  bool accumulate = false;        // add to what c holds
  bool c_in_accumulator = false;  // c holds accumulators: float for 16-bit types
  /// Of c's places, may be null: where it is not above 0, neither NaN, c becomes 0. Kernels of small products alone.
  const void* mask = nullptr;
};

/// Sluice's own product on the CPU: blocked, packed, on the calling thread and idle workers. Floating types and
/// integers; 16-bit types add up in float, integers wrap. Same result for any number of threads.
void gemm(const GemmProblem& problem);

}  // namespace sluice::detail
