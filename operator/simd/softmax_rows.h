#pragma once

#include <cstdint>

namespace sluice::simd {

/// Memory that a thread reads next: it is asked for while the row before is worked on, when memory would rest.
struct Ahead {
  const void* data = nullptr;
  std::int64_t bytes = 0;
};

/// What the softmax family does to a row of n neighbouring floats, in the vectors of simd::target(). Sums are in double
/// and have 16 parts, whatever the width of a vector, so that their order is the same on every instruction set. A row
/// may be written over. Rows written with `stream` go past the caches, but for lines that they share: finish() comes
/// before anybody reads them.
struct SoftmaxRows {
  /// The largest; NaN is passed over.
  float (*largest)(const float* x, std::int64_t n);
  /// The sum of e^(x - shift), of x <= shift; each of them is also written to `to` unless that is null.
  double (*exp_sum)(const float* x, float shift, std::int64_t n, float* to, Ahead next);
  /// Joins x to n pairs of the largest term of a column and the sum of e^(term - largest), equal infinities' being 1.
  void (*join)(const float* x, std::int64_t n, float* pairs);
  /// The sum of a * b, of a alone if b is null.
  double (*sum)(const float* a, const float* b, std::int64_t n);
  /// x * factor.
  void (*scale)(const float* x, float factor, std::int64_t n, float* to, bool stream);
  /// (x - largest) - log_of_sum.
  void (*shift)(const float* x, float largest, float log_of_sum, std::int64_t n, float* to, bool stream);
  /// e^((x - largest) - log_of_sum) * factor.
  void (*probability)(const float* x, float largest, float log_of_sum, float factor, std::int64_t n, float* to);
  /// The gradients of softmax, y * (dy - total), and of its logarithm, dy - e^y * total.
  void (*gradient)(const float* y, const float* dy, float total, std::int64_t n, float* to, bool stream);
  void (*log_gradient)(const float* y, const float* dy, float total, std::int64_t n, float* to, bool stream);
  /// After streamed rows of this thread.
  void (*finish)();
};

/// Null if there are none: the plain loops serve.
const SoftmaxRows* softmax_rows() noexcept;

}  // namespace sluice::simd
