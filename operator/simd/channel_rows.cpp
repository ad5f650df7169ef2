#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/channel_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/channel_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<double>;
constexpr std::int64_t k_parts = 16;
constexpr std::int64_t k_wide = hn::MaxLanes(Wide{});
constexpr std::int64_t k_vectors = k_parts / k_wide;

HWY_INLINE hn::Vec<Wide> wide(const float* x) {
  return hn::PromoteTo(Wide{}, hn::LoadU(hn::Rebind<float, Wide>{}, x));
}

// Two sums of sixteen parts each.
struct Sums {
  hn::Vec<Wide> first[k_vectors], second[k_vectors];

  HWY_INLINE Sums() {
    for (std::int64_t k = 0; k < k_vectors; ++k)
      first[k] = second[k] = hn::Zero(Wide{});
  }
  HWY_INLINE void add(std::int64_t k, hn::Vec<Wide> a, hn::Vec<Wide> b) {
    first[k] = hn::Add(first[k], a);
    second[k] = hn::Add(second[k], b);
  }
  HWY_INLINE void join(double* sums) const {
    alignas(HWY_MAX_BYTES) double parts[2][k_parts];
    for (std::int64_t k = 0; k < k_vectors; ++k) {
      hn::Store(first[k], Wide{}, parts[0] + k * k_wide);
      hn::Store(second[k], Wide{}, parts[1] + k * k_wide);
    }
    for (int i = 0; i < 2; ++i) {
      double total = 0;
      for (double part : parts[i])
        total += part;
      sums[i] += total;
    }
  }
};

// What is left over is added behind the parts.
void moments(const float* x, double shift, std::int64_t n, double* sums) {
  Sums parts;
  const auto center = hn::Set(Wide{}, shift);
  std::int64_t i = 0;
  for (; i + k_parts <= n; i += k_parts) {
    for (std::int64_t k = 0; k < k_vectors; ++k) {
      const auto d = hn::Sub(wide(x + i + k * k_wide), center);
      parts.add(k, d, hn::Mul(d, d));
    }
  }
  parts.join(sums);
  for (; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - shift;
    sums[0] += d;
    sums[1] += d * d;
  }
}

void products(const float* dy, const float* x, float mean, std::int64_t n, double* sums) {
  Sums parts;
  const hn::Rebind<float, Wide> narrow;
  const auto center = hn::Set(narrow, mean);
  std::int64_t i = 0;
  for (; i + k_parts <= n; i += k_parts) {
    for (std::int64_t k = 0; k < k_vectors; ++k) {
      const auto centred = hn::PromoteTo(Wide{}, hn::Sub(hn::LoadU(narrow, x + i + k * k_wide), center));
      const auto d = wide(dy + i + k * k_wide);
      parts.add(k, d, hn::Mul(d, centred));
    }
  }
  parts.join(sums);
  for (; i < n; ++i) {
    sums[0] += static_cast<double>(dy[i]);
    sums[1] += static_cast<double>(dy[i]) * static_cast<double>(x[i] - mean);
  }
}

// Plain loops, which become vectors.
void column_moments(
    const float* x, const double* shift, std::int64_t n, double* HWY_RESTRICT sums, double* HWY_RESTRICT squares) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - shift[i];
    sums[i] += d;
    squares[i] += d * d;
  }
}

void column_products(
    const float* dy,
    const float* x,
    const float* mean,
    std::int64_t n,
    double* HWY_RESTRICT sums,
    double* HWY_RESTRICT products) {
  for (std::int64_t i = 0; i < n; ++i) {
    sums[i] += static_cast<double>(dy[i]);
    products[i] += static_cast<double>(dy[i]) * static_cast<double>(x[i] - mean[i]);
  }
}

void normalise(const float* x, float mean, float scale, float shift, std::int64_t n, float* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = (x[i] - mean) * scale + shift;
}

void column_normalise(
    const float* x, const float* mean, const float* scale, const float* shift, std::int64_t n, float* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
}

void gradient(const float* dy, const float* x, const float (&of)[4], std::int64_t n, float* dx) {
  const float mean = of[0], scale = of[1], mean_dy = of[2], slope = of[3];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = scale * (dy[i] - mean_dy - (x[i] - mean) * slope);
}

void column_gradient(const float* dy, const float* x, const float* const (&of)[4], std::int64_t n, float* dx) {
  const float *mean = of[0], *scale = of[1], *mean_dy = of[2], *slope = of[3];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = scale[i] * (dy[i] - mean_dy[i] - (x[i] - mean[i]) * slope[i]);
}

const ChannelRows* table() noexcept {
  static constexpr ChannelRows k_rows{
      moments, column_moments, products, column_products, normalise, column_normalise, gradient, column_gradient};
  return &k_rows;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(ChannelRows, channel_rows, table())
#endif
