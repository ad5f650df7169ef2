#include <algorithm>

#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/sum_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/sum_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// `sum` with the terms of one vector.
template <RowSum kind, class V>
HWY_INLINE V with(V sum, V x) {
  if constexpr (kind == RowSum::squares) {
    return hn::MulAdd(x, x, sum);
  } else if constexpr (kind == RowSum::magnitudes) {
    return hn::Add(sum, hn::Abs(x));
  } else if constexpr (kind == RowSum::numbers) {
    return hn::IfThenElse(hn::Eq(x, x), hn::Add(sum, x), sum);
  } else if constexpr (kind == RowSum::product) {
    return hn::Mul(sum, x);
  } else {
    return hn::Add(sum, x);
  }
}
template <RowSum kind, class V>
HWY_INLINE V joined(V a, V b) {
  if constexpr (kind == RowSum::product) {
    return hn::Mul(a, b);
  } else {
    return hn::Add(a, b);
  }
}

/// All lanes, halves of them at a time.
template <RowSum kind, class D>
HWY_INLINE hn::TFromD<D> all_lanes(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D{}) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return all_lanes<kind>(half, joined<kind>(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else if constexpr (sizeof(hn::TFromD<D>) == 4) {
    v = joined<kind>(v, hn::Shuffle1032(v));
    return hn::GetLane(joined<kind>(v, hn::Shuffle2301(v)));
  } else {
    return hn::GetLane(joined<kind>(v, hn::Shuffle01(v)));
  }
}

template <RowSum kind, class T>
HWY_INLINE T sum(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t k_step = hn::MaxLanes(hn::ScalableTag<T>{}), k_parts = 256 / sizeof(T);
  constexpr std::int64_t k_beside = k_parts / k_step;
  const auto nothing = hn::Set(d, kind == RowSum::product ? T{1} : T{0});
  hn::Vec<hn::ScalableTag<T>> parts[k_beside];
  for (auto& part : parts)
    part = nothing;
  std::int64_t i = 0;
  for (; i + k_parts <= n; i += k_parts) {
    for (std::int64_t k = 0; k < k_beside; ++k)
      parts[k] = with<kind>(parts[k], hn::LoadU(d, x + i + k * k_step));
  }
  for (std::int64_t k = 0; i < n; i += k_step, ++k) {
    const auto there = hn::FirstN(d, static_cast<std::size_t>(std::min(n - i, k_step)));
    parts[k] = with<kind>(parts[k], hn::IfThenElse(there, hn::MaskedLoad(there, d, x + i), nothing));
  }
  for (std::int64_t half = k_beside / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k)
      parts[k] = joined<kind>(parts[k], parts[k + half]);
  }
  return all_lanes<kind>(d, parts[0]);
}

template <RowSum kind, class T>
void sums(const T* x, std::int64_t n, std::int64_t block, T* to) {
  for (std::int64_t i = 0; i < n; i += block)
    *to++ = sum<kind>(x + i, std::min(block, n - i));
}

template <class T>
RowSums<T> function(RowSum kind) noexcept {
  switch (kind) {
    case RowSum::terms:
      return sums<RowSum::terms, T>;
    case RowSum::squares:
      return sums<RowSum::squares, T>;
    case RowSum::magnitudes:
      return sums<RowSum::magnitudes, T>;
    case RowSum::numbers:
      return sums<RowSum::numbers, T>;
    case RowSum::product:
      return sums<RowSum::product, T>;
    case RowSum::none:
      break;
  }
  return nullptr;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

template <class T>
RowSums<T> row_sums([[maybe_unused]] RowSum kind) noexcept {
  SLUICE_SIMD_RETURN(function<T>(kind))
  return nullptr;
}

template RowSums<float> row_sums(RowSum) noexcept;
template RowSums<double> row_sums(RowSum) noexcept;

}  // namespace sluice::simd
#endif
