#pragma once

#include <cstdint>

namespace sluice::simd {

/// What layer norm and its like do to a row of n neighbouring floats, in the vectors of simd::target(), beside what
/// ChannelRows have. Sums are in double and have 16 parts, whatever the width of a vector, so that their order is the
/// same on every instruction set. A row may be written over what is read. Rows written with `stream` go past the
/// caches: they are whole lines of 64 bytes, and finish() comes before anybody reads them.
struct NormRows {
  /// ((x - mean) * inv_std) * gamma + beta, of a gamma and a beta an element; beta may be null.
  void (*scale)(
      const float* x,
      float mean,
      float inv_std,
      const float* gamma,
      const float* beta,
      std::int64_t n,
      float* y,
      bool stream);
  /// Adds gamma * dy and gamma * dy * (x - mean) to sums[0] and sums[1].
  void (*products)(const float* dy, const float* x, const float* gamma, float mean, std::int64_t n, double* sums);
  /// (gamma * dy - offset - (x - mean) * slope) * inv_std of {mean, inv_std, offset, slope}.
  void (*gradient)(
      const float* dy,
      const float* x,
      const float* gamma,
      const float (&of)[4],
      std::int64_t n,
      float* dx,
      bool stream);
  /// The same of one gamma: {mean, inv_std, offset, slope, gamma}.
  void (*span_gradient)(const float* dy, const float* x, const float (&of)[5], std::int64_t n, float* dx);
  /// Adds dy * ((x - mean) * inv_std) and dy to the sums of each element; `plain` may be null.
  void (*add_columns)(
      const float* dy, const float* x, float mean, float inv_std, std::int64_t n, double* products, double* plain);
  /// After streamed rows of this thread.
  void (*finish)();
};

/// Null if there are none: the plain loops serve.
const NormRows* norm_rows() noexcept;

}  // namespace sluice::simd
