#include <algorithm>

#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/square_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/square_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE T sum(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t k_step = hn::MaxLanes(hn::ScalableTag<T>{}), k_parts = 256 / sizeof(T);
  constexpr std::int64_t k_beside = k_parts / k_step;
  hn::Vec<hn::ScalableTag<T>> parts[k_beside];
  for (auto& part : parts)
    part = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + k_parts <= n; i += k_parts) {
    for (std::int64_t k = 0; k < k_beside; ++k) {
      const auto value = hn::LoadU(d, x + i + k * k_step);
      parts[k] = hn::MulAdd(value, value, parts[k]);
    }
  }
  for (std::int64_t k = 0; i < n; i += k_step, ++k) {
    const auto value = hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(std::min(n - i, k_step))), d, x + i);
    parts[k] = hn::MulAdd(value, value, parts[k]);
  }
  for (std::int64_t half = k_beside / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k)
      parts[k] = hn::Add(parts[k], parts[k + half]);
  }
  return hn::GetLane(hn::SumOfLanes(d, parts[0]));
}

template <class T>
void sums(const T* x, std::int64_t n, std::int64_t block, T* to) {
  for (std::int64_t i = 0; i < n; i += block)
    *to++ = sum(x + i, std::min(block, n - i));
}

template <class T>
SumsOfSquares<T> function() noexcept {
  return sums<T>;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

template <class T>
SumsOfSquares<T> sums_of_squares() noexcept {
  SLUICE_SIMD_RETURN(function<T>())
  return nullptr;
}

template SumsOfSquares<float> sums_of_squares() noexcept;
template SumsOfSquares<double> sums_of_squares() noexcept;

}  // namespace sluice::simd
#endif
