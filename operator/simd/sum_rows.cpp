#include <algorithm>
#include <cstdint>
#include <type_traits>

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

/// A vector of terms, or those of `there` and `other` elsewhere.
template <class D, class T>
HWY_INLINE hn::Vec<D> terms_at(D d, const T* x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const hn::Rebind<std::uint32_t, D> whole;
    const hn::Rebind<std::uint16_t, D> narrow;
    const auto bits = hn::PromoteTo(whole, hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(x)));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  } else if constexpr (std::is_same_v<T, Half>) {
    const hn::Rebind<hwy::float16_t, D> half;
    const hn::Rebind<std::uint16_t, D> narrow;
    return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(x))));
  } else {
    return hn::LoadU(d, x);
  }
}
template <class D, class T>
HWY_INLINE hn::Vec<D> terms_at(D d, const T* x, std::int64_t n, hn::Vec<D> others) {
  const auto there = hn::FirstN(d, static_cast<std::size_t>(n));
  if constexpr (sizeof(T) == sizeof(hn::TFromD<D>)) {
    return hn::IfThenElse(there, hn::MaskedLoad(there, d, x), others);
  } else {
    T left[hn::MaxLanes(D{})] = {};
    std::copy_n(x, n, left);
    return hn::IfThenElse(there, terms_at(d, static_cast<const T*>(left)), others);
  }
}

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
HWY_INLINE RowTotal<T> sum(const T* x, std::int64_t n) {
  using Total = RowTotal<T>;
  using D = hn::ScalableTag<Total>;
  const D d;
  constexpr std::int64_t k_step = hn::MaxLanes(D{}), k_parts = 256 / sizeof(Total), k_beside = k_parts / k_step;
  const auto nothing = hn::Set(d, kind == RowSum::product ? Total{1} : Total{0});
  hn::Vec<D> parts[k_beside];
  for (auto& part : parts)
    part = nothing;
  std::int64_t i = 0;
  for (; i + k_parts <= n; i += k_parts) {
    for (std::int64_t k = 0; k < k_beside; ++k)
      parts[k] = with<kind>(parts[k], terms_at(d, x + i + k * k_step));
  }
  for (std::int64_t k = 0; i < n; i += k_step, ++k)
    parts[k] = with<kind>(parts[k], terms_at(d, x + i, std::min(n - i, k_step), nothing));
  for (std::int64_t half = k_beside / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k)
      parts[k] = joined<kind>(parts[k], parts[k + half]);
  }
  return all_lanes<kind>(d, parts[0]);
}

template <RowSum kind, class T>
void sums(const T* x, std::int64_t n, std::int64_t block, RowTotal<T>* to) {
  for (std::int64_t i = 0; i < n; i += block)
    *to++ = sum<kind>(x + i, std::min(block, n - i));
}

template <class T>
void add(const T* x, std::int64_t n, RowTotal<T>* HWY_RESTRICT to) {
  using D = hn::ScalableTag<RowTotal<T>>;
  const D d;
  constexpr std::int64_t k_step = hn::MaxLanes(D{});
  std::int64_t i = 0;
  for (; i + k_step <= n; i += k_step)
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), terms_at(d, x + i)), d, to + i);
  for (; i < n; ++i)
    to[i] += static_cast<RowTotal<T>>(x[i]);
}

template <class T>
ColumnSums<T> columns() noexcept {
  return add<T>;
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

template <class T>
ColumnSums<T> column_sums() noexcept {
  SLUICE_SIMD_RETURN(columns<T>())
  return nullptr;
}

#define SLUICE_SUM_ROWS(T)                       \
  template RowSums<T> row_sums(RowSum) noexcept; \
  template ColumnSums<T> column_sums() noexcept;
SLUICE_SUM_ROWS(float)
SLUICE_SUM_ROWS(double)
SLUICE_SUM_ROWS(Half)
SLUICE_SUM_ROWS(BFloat16)
#undef SLUICE_SUM_ROWS

}  // namespace sluice::simd
#endif
