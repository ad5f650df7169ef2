#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/arg_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/arg_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <limits>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A number that is none; integers are all numbers.
template <class T>
HWY_INLINE bool is_nan(T value) {
  return value != value;  // NOLINT: that is what a NaN is
}

template <bool Largest, class T>
HWY_INLINE bool is_better(T value, T best) {
  return Largest ? value > best : value < best;
}
template <bool Largest, class V>
HWY_INLINE auto better_lanes(V value, V best) {
  return Largest ? hn::Gt(value, best) : hn::Lt(value, best);
}

// Of numbers, none of them a NaN.
template <bool Largest, class V>
HWY_INLINE V better_of(V value, V best) {
  return Largest ? hn::Max(value, best) : hn::Min(value, best);
}

/// The best of all lanes, halves of them at a time.
template <bool Largest, class D>
HWY_INLINE hn::TFromD<D> best_lane(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D{}) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return best_lane<Largest>(half, better_of<Largest>(hn::UpperHalf(half, v), hn::LowerHalf(half, v)));
  } else if constexpr (sizeof(hn::TFromD<D>) == 4) {
    v = better_of<Largest>(hn::Shuffle1032(v), v);
    return hn::GetLane(better_of<Largest>(hn::Shuffle2301(v), v));
  } else {
    return hn::GetLane(better_of<Largest>(hn::Shuffle01(v), v));
  }
}

// Vectors beside each other, for one comparison waits for the one before.
template <bool Largest, class T>
T best(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t k_step = hn::MaxLanes(hn::ScalableTag<T>{}), k_beside = 4, k_many = k_beside * k_step;
  T result = x[0];
  std::int64_t i = 0;
  if (n >= k_many) {
    hn::Vec<hn::ScalableTag<T>> parts[k_beside];
    for (std::int64_t k = 0; k < k_beside; ++k)
      parts[k] = hn::LoadU(d, x + k * k_step);
    auto numbers = hn::Eq(parts[0], parts[0]);
    for (std::int64_t k = 1; k < k_beside; ++k)
      numbers = hn::And(numbers, hn::Eq(parts[k], parts[k]));
    for (i = k_many; i + k_many <= n; i += k_many) {
      for (std::int64_t k = 0; k < k_beside; ++k) {
        const auto value = hn::LoadU(d, x + i + k * k_step);
        if constexpr (!std::is_integral_v<T>)
          numbers = hn::And(numbers, hn::Eq(value, value));
        parts[k] = better_of<Largest>(value, parts[k]);
      }
    }
    if (!hn::AllTrue(d, numbers))
      return std::numeric_limits<T>::quiet_NaN();
    for (std::int64_t k = 1; k < k_beside; ++k)
      parts[0] = better_of<Largest>(parts[k], parts[0]);
    result = best_lane<Largest>(d, parts[0]);
  }
  for (; i < n && !is_nan(result); ++i)
    result = is_better<Largest>(x[i], result) || is_nan(x[i]) ? x[i] : result;
  return result;
}

template <class T>
std::int64_t find(const T* x, std::int64_t n, T value) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t k_step = hn::MaxLanes(hn::ScalableTag<T>{});
  const bool nan = is_nan(value);
  const auto wanted = hn::Set(d, value);
  std::int64_t i = 0;
  for (; i + k_step <= n; i += k_step) {
    const auto at = hn::LoadU(d, x + i);
    const auto same = nan ? hn::Not(hn::Eq(at, at)) : hn::Eq(at, wanted);
    if (!hn::AllFalse(d, same))
      return i + static_cast<std::int64_t>(hn::FindFirstTrue(d, same));
  }
  while (i < n && x[i] != value && !(nan && is_nan(x[i])))
    ++i;
  return i;
}

// Where `value` takes the place of `old`: better, or a NaN, of which the first stays.
template <bool Largest, class T, class V>
HWY_INLINE auto wins_over(V value, V old) {
  const auto better = better_lanes<Largest>(value, old);
  if constexpr (std::is_integral_v<T>)
    return better;
  else
    return hn::Or(better, hn::AndNot(hn::Eq(value, value), hn::Eq(old, old)));
}
template <bool Largest, class T>
HWY_INLINE bool wins_over(T value, T old) {
  return is_better<Largest>(value, old) || (is_nan(value) && !is_nan(old));
}

template <bool Largest, class T>
void keep(const T* x, std::int64_t width, T* HWY_RESTRICT best) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t k_step = hn::MaxLanes(hn::ScalableTag<T>{});
  std::int64_t j = 0;
  for (; j + k_step <= width; j += k_step) {
    const auto value = hn::LoadU(d, x + j), old = hn::LoadU(d, best + j);
    hn::StoreU(hn::IfThenElse(wins_over<Largest, T>(value, old), value, old), d, best + j);
  }
  for (; j < width; ++j)
    best[j] = wins_over<Largest>(x[j], best[j]) ? x[j] : best[j];
}

template <bool Largest, class T>
void row(const T* x, std::int64_t width, RowNumber<T> number, T* HWY_RESTRICT best, RowNumber<T>* HWY_RESTRICT where) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<hn::ScalableTag<T>> whole;
  constexpr std::int64_t k_step = hn::MaxLanes(hn::ScalableTag<T>{});
  const auto here = hn::Set(whole, number);
  std::int64_t j = 0;
  for (; j + k_step <= width; j += k_step) {
    const auto value = hn::LoadU(d, x + j), old = hn::LoadU(d, best + j);
    const auto wins = wins_over<Largest, T>(value, old);
    hn::StoreU(hn::IfThenElse(wins, value, old), d, best + j);
    hn::StoreU(hn::IfThenElse(hn::RebindMask(whole, wins), here, hn::LoadU(whole, where + j)), whole, where + j);
  }
  for (; j < width; ++j) {
    if (wins_over<Largest>(x[j], best[j])) {
      best[j] = x[j];
      where[j] = number;
    }
  }
}

template <class T>
const ArgRows<T>* table(bool largest) noexcept {
  static constexpr ArgRows<T> k_largest{best<true, T>, find<T>, row<true, T>, keep<true, T>};
  static constexpr ArgRows<T> k_smallest{best<false, T>, find<T>, row<false, T>, keep<false, T>};
  return largest ? &k_largest : &k_smallest;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

template <class T>
const ArgRows<T>* arg_rows([[maybe_unused]] bool largest) noexcept {
  SLUICE_SIMD_RETURN(table<T>(largest))
  return nullptr;
}

template const ArgRows<float>* arg_rows(bool) noexcept;
template const ArgRows<double>* arg_rows(bool) noexcept;
template const ArgRows<std::int32_t>* arg_rows(bool) noexcept;
template const ArgRows<std::int64_t>* arg_rows(bool) noexcept;

}  // namespace sluice::simd
#endif
