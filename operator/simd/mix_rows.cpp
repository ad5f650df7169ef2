#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/mix_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/mix_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Single = hn::ScalableTag<float>;
constexpr std::int64_t k_lanes = hn::MaxLanes(Single{});

void across(const float* const* rows, const float* weight, std::int64_t count, std::int64_t n, float* to) {
  const Single d;
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < count; ++k) {
      const auto term = hn::Mul(hn::Set(d, weight[k]), hn::LoadU(d, rows[k] + i));
      sum = k == 0 ? term : hn::Add(sum, term);
    }
    hn::StoreU(sum, d, to + i);
  }
  for (; i < n; ++i) {
    float sum = count > 0 ? weight[0] * rows[0][i] : 0;
    for (std::int64_t k = 1; k < count; ++k)
      sum += weight[k] * rows[k][i];
    to[i] = sum;
  }
}

void along(const float* row, const MixTable& table, float* to) {
  const Single d;
  const hn::RebindToSigned<Single> whole;
  static_assert(MixTable::k_group % k_lanes == 0);
  for (std::int64_t i = 0; i < table.n; i += k_lanes) {
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < table.terms; ++k) {
      const std::int64_t at = k * table.pitch + i;
      const auto place = hn::LoadU(whole, table.place + at);
      const auto is_none = hn::Lt(place, hn::Zero(whole));
      const auto any = hn::GatherIndex(d, row, hn::IfThenZeroElse(is_none, place));
      const auto term = hn::Mul(hn::LoadU(d, table.weight + at), hn::IfThenZeroElse(hn::RebindMask(d, is_none), any));
      sum = k == 0 ? term : hn::Add(sum, term);
    }
    if (i + k_lanes <= table.n)
      hn::StoreU(sum, d, to + i);
    else
      hn::BlendedStore(sum, hn::FirstN(d, static_cast<std::size_t>(table.n - i)), d, to + i);
  }
}

void beside(const float* rows, std::int32_t none, const MixTable& table, float* to) {
  const Single d;
  constexpr std::int64_t k_width = MixRows::k_width, k_vectors = k_width / k_lanes;
  static_assert(k_vectors * k_lanes == k_width);
  for (std::int64_t i = 0; i < table.n; ++i) {
    hn::Vec<Single> sum[k_vectors];
    for (std::int64_t k = 0; k < table.terms; ++k) {
      const std::int32_t place = table.place[k * table.pitch + i];
      const float* const from = rows + (place < 0 ? none : place) * k_width;
      const auto weight = hn::Set(d, table.weight[k * table.pitch + i]);
      for (std::int64_t v = 0; v < k_vectors; ++v) {
        const auto term = hn::Mul(weight, hn::LoadU(d, from + v * k_lanes));
        sum[v] = k == 0 ? term : hn::Add(sum[v], term);
      }
    }
    for (std::int64_t v = 0; v < k_vectors; ++v)
      hn::StoreU(sum[v], d, to + i * k_width + v * k_lanes);
  }
}

const MixRows* rows() noexcept {
  static constexpr MixRows k_rows{across, along, beside};
  return &k_rows;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(MixRows, mix_rows, rows())
#endif
