#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/norm_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/norm_rows.cpp>
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Wide = hn::ScalableTag<double>;
constexpr std::int64_t k_step = hn::MaxLanes(D{});
constexpr std::int64_t k_parts = 16;
constexpr std::int64_t k_wide = hn::MaxLanes(Wide{});
constexpr std::int64_t k_vectors = k_parts / k_wide;

HWY_INLINE hn::Vec<Wide> wide(const float* x) {
  return hn::PromoteTo(Wide{}, hn::LoadU(hn::Rebind<float, Wide>{}, x));
}

// Calls write(i, vector, number): whole vectors, then what is left one by one. Numbers and lanes round alike: no
// formula here is contracted.
template <class Vector, class Number>
HWY_INLINE void along(std::int64_t n, float* to, bool stream, const Vector& vector, const Number& number) {
  std::int64_t i = 0;
  if (stream) {
    for (; i < n; i += k_step)
      hn::Stream(vector(i), D{}, to + i);
    return;
  }
  for (; i + k_step <= n; i += k_step)
    hn::StoreU(vector(i), D{}, to + i);
  for (; i < n; ++i)
    to[i] = number(i);
}

void scale(
    const float* x,
    float mean,
    float inv_std,
    const float* gamma,
    const float* beta,
    std::int64_t n,
    float* y,
    bool stream) {
  const D d;
  const V centre = hn::Set(d, mean), by = hn::Set(d, inv_std);
  const auto normal = [&](std::int64_t i) {
    return hn::Mul(hn::Mul(hn::Sub(hn::LoadU(d, x + i), centre), by), hn::LoadU(d, gamma + i));
  };
  const auto one = [&](std::int64_t i) { return (x[i] - mean) * inv_std * gamma[i]; };
  if (beta == nullptr)
    return along(n, y, stream, normal, one);
  along(
      n,
      y,
      stream,
      [&](std::int64_t i) { return hn::Add(normal(i), hn::LoadU(d, beta + i)); },
      [&](std::int64_t i) { return one(i) + beta[i]; });
}

// What is left over is added behind the parts.
void products(const float* dy, const float* x, const float* gamma, float mean, std::int64_t n, double* sums) {
  const hn::Rebind<float, Wide> narrow;
  const auto centre = hn::Set(narrow, mean);
  hn::Vec<Wide> plain[k_vectors], by_x[k_vectors];
  for (std::int64_t k = 0; k < k_vectors; ++k)
    plain[k] = by_x[k] = hn::Zero(Wide{});
  std::int64_t i = 0;
  for (; i + k_parts <= n; i += k_parts) {
    for (std::int64_t k = 0; k < k_vectors; ++k) {
      const std::int64_t at = i + k * k_wide;
      const auto scaled = hn::Mul(wide(dy + at), wide(gamma + at));
      const auto centred = hn::PromoteTo(Wide{}, hn::Sub(hn::LoadU(narrow, x + at), centre));
      plain[k] = hn::Add(plain[k], scaled);
      by_x[k] = hn::Add(by_x[k], hn::Mul(scaled, centred));
    }
  }
  alignas(HWY_MAX_BYTES) double parts[2][k_parts];
  for (std::int64_t k = 0; k < k_vectors; ++k) {
    hn::Store(plain[k], Wide{}, parts[0] + k * k_wide);
    hn::Store(by_x[k], Wide{}, parts[1] + k * k_wide);
  }
  for (int s = 0; s < 2; ++s) {
    double total = 0;
    for (double part : parts[s])
      total += part;
    sums[s] += total;
  }
  for (; i < n; ++i) {
    const double scaled = static_cast<double>(dy[i]) * static_cast<double>(gamma[i]);
    sums[0] += scaled;
    sums[1] += scaled * static_cast<double>(x[i] - mean);
  }
}

void gradient(
    const float* dy, const float* x, const float* gamma, const float (&of)[4], std::int64_t n, float* dx, bool stream) {
  const D d;
  const V mean = hn::Set(d, of[0]), by = hn::Set(d, of[1]), offset = hn::Set(d, of[2]), slope = hn::Set(d, of[3]);
  along(
      n,
      dx,
      stream,
      [&](std::int64_t i) {
        const V scaled = hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, gamma + i));
        const V centred = hn::Sub(hn::LoadU(d, x + i), mean);
        return hn::Mul(hn::Sub(hn::Sub(scaled, offset), hn::Mul(centred, slope)), by);
      },
      [&](std::int64_t i) { return (dy[i] * gamma[i] - of[2] - (x[i] - of[0]) * of[3]) * of[1]; });
}

// Plain loops, which become vectors.
void span_gradient(const float* dy, const float* x, const float (&of)[5], std::int64_t n, float* dx) {
  const float mean = of[0], by = of[1], offset = of[2], slope = of[3], gamma = of[4];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = (dy[i] * gamma - offset - (x[i] - mean) * slope) * by;
}

void add_columns(
    const float* dy,
    const float* x,
    float mean,
    float inv_std,
    std::int64_t n,
    double* HWY_RESTRICT products,
    double* HWY_RESTRICT plain) {
  for (std::int64_t i = 0; i < n; ++i)
    products[i] += static_cast<double>(dy[i]) * static_cast<double>((x[i] - mean) * inv_std);
  if (plain == nullptr)
    return;
  for (std::int64_t i = 0; i < n; ++i)
    plain[i] += static_cast<double>(dy[i]);
}

void finish() {
  hwy::FlushStream();
}

const NormRows* table() noexcept {
  static constexpr NormRows k_rows{scale, products, gradient, span_gradient, add_columns, finish};
  return &k_rows;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(NormRows, norm_rows, table())
#endif
