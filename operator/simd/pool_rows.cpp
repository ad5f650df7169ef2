#include <utility>

#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/pool_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/pool_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Each stride-th float; with stride 2 the one behind the last of them is read too.
template <class D, int stride>
struct Every {
  static constexpr std::int64_t lanes = hn::MaxLanes(D{});
  static constexpr std::int64_t reach = stride == 1 ? lanes : 2 * lanes;

  static HWY_INLINE hn::Vec<D> load(const float* x, hn::Vec<hn::RebindToSigned<D>> places) {
    const D d;
    if constexpr (stride == 1) {
      return hn::LoadU(d, x);
    } else if constexpr (stride == 2) {
      return hn::ConcatEven(d, hn::LoadU(d, x + lanes), hn::LoadU(d, x));
    } else {
      return hn::GatherIndex(d, x, places);
    }
  }
};

template <class D, int stride>
HWY_INLINE void largest_of(const WindowRow& row, std::int64_t window, float* y, std::int32_t* index) {
  const hn::RebindToSigned<D> whole;
  using From = Every<D, stride>;
  const std::int64_t start = row.first * row.width + window * row.stride - row.pad;
  const auto places = hn::Mul(hn::Iota(whole, 0), hn::Set(whole, static_cast<std::int32_t>(row.stride)));
  auto best = From::load(row.plane + start, places);
  auto where = hn::Add(places, hn::Set(whole, static_cast<std::int32_t>(start)));
  for (std::int64_t line = row.first; line < row.last; ++line) {
    const std::int64_t begin = start + (line - row.first) * row.width;
    for (std::int64_t at = begin; at < begin + row.taps; ++at) {
      const auto value = From::load(row.plane + at, places);
      // Not below or equal: larger, or a NaN, of which the first stays.
      const auto wins = hn::AndNot(hn::Le(value, best), hn::Eq(best, best));
      best = hn::IfThenElse(wins, value, best);
      where = hn::IfThenElse(
          hn::RebindMask(whole, wins), hn::Add(places, hn::Set(whole, static_cast<std::int32_t>(at))), where);
    }
  }
  hn::StoreU(best, D{}, y + window);
  hn::StoreU(where, whole, index + window);
}

// As many whole vectors of D as there are from `window` on.
template <class D, int stride>
std::int64_t some_largest(const WindowRow& row, std::int64_t window, std::int64_t end, float* y, std::int32_t* index) {
  constexpr std::int64_t lanes = hn::MaxLanes(D{});
  // Of the last tap of the last line.
  const auto past = [&] {
    return (row.last - 1) * row.width + window * row.stride - row.pad + row.taps - 1 + Every<D, stride>::reach;
  };
  const std::int64_t first = window;
  for (; window + lanes <= end && (stride > 2 || past() <= row.readable); window += lanes)
    largest_of<D, stride>(row, window, y, index);
  // What is left over goes with some that were done.
  if (window > first && window < end) {
    const std::int64_t done = std::exchange(window, end - lanes);
    if (stride <= 2 && past() > row.readable)
      return done;
    largest_of<D, stride>(row, window, y, index);
    return end;
  }
  return window;
}

template <int stride>
std::int64_t largest_by(const WindowRow& row, std::int64_t window, std::int64_t end, float* y, std::int32_t* index) {
  window = some_largest<hn::ScalableTag<float>, stride>(row, window, end, y, index);
  if constexpr (hn::MaxLanes(hn::ScalableTag<float>{}) > 8)
    window = some_largest<hn::CappedTag<float, 8>, stride>(row, window, end, y, index);
  if constexpr (hn::MaxLanes(hn::ScalableTag<float>{}) > 4)
    window = some_largest<hn::CappedTag<float, 4>, stride>(row, window, end, y, index);
  return window;
}

std::int64_t largest(const WindowRow& row, std::int64_t begin, std::int64_t end, float* y, std::int32_t* index) {
  return row.stride == 1   ? largest_by<1>(row, begin, end, y, index)
         : row.stride == 2 ? largest_by<2>(row, begin, end, y, index)
                           : largest_by<3>(row, begin, end, y, index);
}

// Plain loops, which become vectors.
void add(const float* HWY_RESTRICT x, std::int64_t n, float* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] += x[i];
}

template <int fixed>
void mean_by(
    const float* HWY_RESTRICT x,
    std::int64_t taps,
    std::int64_t stride,
    float count,
    std::int64_t n,
    float* HWY_RESTRICT to) {
  const std::int64_t step = fixed != 0 ? fixed : stride;
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = x[i * step];
  for (std::int64_t tap = 1; tap < taps; ++tap) {
    for (std::int64_t i = 0; i < n; ++i)
      to[i] += x[i * step + tap];
  }
  for (std::int64_t i = 0; i < n; ++i)
    to[i] /= count;
}

void mean(const float* x, std::int64_t taps, std::int64_t stride, float count, std::int64_t n, float* to) {
  const auto by = stride == 1 ? mean_by<1> : stride == 2 ? mean_by<2> : mean_by<0>;
  by(x, taps, stride, count, n, to);
}

const PoolRows* table() noexcept {
  static constexpr PoolRows k_rows{largest, add, mean};
  return &k_rows;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(PoolRows, pool_rows, table())
#endif
