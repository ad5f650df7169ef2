#pragma once

#include <cstdint>

namespace sluice::simd {

/// Windows of a plane that stand in one row, as far as they lie inside it.
struct WindowRow {
  const float* plane = nullptr;
  std::int64_t readable = 0;         // floats from there on that may be read
  std::int64_t width = 0;            // of the plane
  std::int64_t first = 0, last = 0;  // its rows [first, last)
  std::int64_t taps = 0, stride = 0, pad = 0;
};

/// What pooling does to rows of floats, in the vectors of simd::target().
struct PoolRows {
  /// Maxima of windows [begin, end), which lie inside, and where in the plane they are: the first of equal ones, the
  /// first NaN if there is one. Returns the first window that was left out, for which a vector would not be worth it.
  std::int64_t (*largest)(const WindowRow& row, std::int64_t begin, std::int64_t end, float* y, std::int32_t* index);
  /// to += x
  void (*add)(const float* x, std::int64_t n, float* to);
  /// to[i] = (x[i * stride] + ... + x[i * stride + taps - 1]) / count, in this order.
  void (*mean)(const float* x, std::int64_t taps, std::int64_t stride, float count, std::int64_t n, float* to);
};

/// Null if there are none: the plain loops serve.
const PoolRows* pool_rows() noexcept;

}  // namespace sluice::simd
