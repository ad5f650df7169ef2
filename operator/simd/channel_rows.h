#pragma once

#include <cstdint>

namespace sluice::simd {

/// What batch norm does to n neighbouring floats, in the vectors of simd::target(): of one channel, or (`columns`) each
/// of a channel of its own. Sums are in double; those of one channel have 16 parts, whatever the width of a vector, so
/// that their order is the same on every instruction set. What is written may be written over what is read.
struct ChannelRows {
  /// Adds x - shift and its square to sums[0] and sums[1].
  void (*moments)(const float* x, double shift, std::int64_t n, double* sums);
  void (*column_moments)(const float* x, const double* shift, std::int64_t n, double* sums, double* squares);
  /// Adds dy and dy * (x - mean).
  void (*products)(const float* dy, const float* x, float mean, std::int64_t n, double* sums);
  void (*column_products)(
      const float* dy, const float* x, const float* mean, std::int64_t n, double* sums, double* products);
  /// (x - mean) * scale + shift.
  void (*normalise)(const float* x, float mean, float scale, float shift, std::int64_t n, float* y);
  void (*column_normalise)(
      const float* x, const float* mean, const float* scale, const float* shift, std::int64_t n, float* y);
  /// scale * (dy - mean_dy - (x - mean) * slope), of {mean, scale, mean_dy, slope}.
  void (*gradient)(const float* dy, const float* x, const float (&of)[4], std::int64_t n, float* dx);
  void (*column_gradient)(const float* dy, const float* x, const float* const (&of)[4], std::int64_t n, float* dx);
};

/// Null if there are none: the plain loops serve.
const ChannelRows* channel_rows() noexcept;

}  // namespace sluice::simd
