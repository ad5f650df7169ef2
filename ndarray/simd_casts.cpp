#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/ndarray/detail/simd_casts.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/ndarray/simd_casts.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Single = hn::ScalableTag<float>;
using Whole = hn::Rebind<std::uint32_t, Single>;
using Signed = hn::Rebind<std::int32_t, Single>;
using Short = hn::Rebind<std::uint16_t, Single>;
constexpr std::int64_t k_step = hn::MaxLanes(Single{});

struct FromHalf {
  using Out = float;
  static HWY_INLINE void run(const Half* from, float* to) {
    const hn::Rebind<hwy::float16_t, Single> half;
    hn::StoreU(
        hn::PromoteTo(Single{}, hn::BitCast(half, hn::LoadU(Short{}, reinterpret_cast<const std::uint16_t*>(from)))),
        Single{},
        to);
  }
};
struct ToHalf {
  using Out = Half;
  static HWY_INLINE void run(const float* from, Half* to) {
    const hn::Rebind<hwy::float16_t, Single> half;
    const auto y = hn::DemoteTo(half, hn::LoadU(Single{}, from));
    hn::StoreU(hn::BitCast(Short{}, y), Short{}, reinterpret_cast<std::uint16_t*>(to));
  }
};
struct FromBFloat {
  using Out = float;
  static HWY_INLINE void run(const BFloat16* from, float* to) {
    const auto bits = hn::PromoteTo(Whole{}, hn::LoadU(Short{}, reinterpret_cast<const std::uint16_t*>(from)));
    hn::StoreU(hn::BitCast(Single{}, hn::ShiftLeft<16>(bits)), Single{}, to);
  }
};
// Highway's own cuts the lower half off; this rounds it, halves to even, and keeps NaN one.
struct ToBFloat {
  using Out = BFloat16;
  static HWY_INLINE void run(const float* from, BFloat16* to) {
    const Whole d;
    const auto bits = hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(from));
    const auto upper = hn::ShiftRight<16>(bits), odd = hn::And(upper, hn::Set(d, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7fff)), odd));
    // Signed, for their comparison is there everywhere; the sign is gone.
    const auto magnitude = hn::BitCast(Signed{}, hn::And(bits, hn::Set(d, 0x7fffffff)));
    const auto is_nan = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(Signed{}, 0x7f800000)));
    const auto y = hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(d, 0x40)), rounded);
    hn::StoreU(hn::DemoteTo(Short{}, hn::BitCast(Signed{}, y)), Short{}, reinterpret_cast<std::uint16_t*>(to));
  }
};

template <class F, class From>
bool run(const From* from, typename F::Out* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + k_step <= n; i += k_step)
    F::run(from + i, to + i);
  if (i < n) {
    From source[k_step] = {};
    typename F::Out target[k_step];
    for (std::int64_t j = 0; i + j < n; ++j)
      source[j] = from[i + j];
    F::run(source, target);
    for (std::int64_t j = 0; i + j < n; ++j)
      to[i + j] = target[j];
  }
  return true;
}

bool from_half(const Half* from, float* to, std::int64_t n) {
  return run<FromHalf>(from, to, n);
}
bool to_half(const float* from, Half* to, std::int64_t n) {
  return run<ToHalf>(from, to, n);
}
bool from_bfloat(const BFloat16* from, float* to, std::int64_t n) {
  return run<FromBFloat>(from, to, n);
}
bool to_bfloat(const float* from, BFloat16* to, std::int64_t n) {
  return run<ToBFloat>(from, to, n);
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

namespace {

#define SLUICE_CAST(name, From, To)                                                                        \
  bool name([[maybe_unused]] const From* from, [[maybe_unused]] To* to, [[maybe_unused]] std::int64_t n) { \
    SLUICE_SIMD_RETURN(name(from, to, n))                                                                  \
    return false;                                                                                          \
  }
SLUICE_CAST(from_half, Half, float)
SLUICE_CAST(to_half, float, Half)
SLUICE_CAST(from_bfloat, BFloat16, float)
SLUICE_CAST(to_bfloat, float, BFloat16)
#undef SLUICE_CAST

template <class From, class To>
void plain(const From* from, To* to, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = static_cast<To>(from[i]);
}

}  // namespace

void convert(const Half* from, float* to, std::int64_t n) noexcept {
  if (!from_half(from, to, n))
    plain(from, to, n);
}
void convert(const BFloat16* from, float* to, std::int64_t n) noexcept {
  if (!from_bfloat(from, to, n))
    plain(from, to, n);
}
void convert(const float* from, Half* to, std::int64_t n) noexcept {
  if (!to_half(from, to, n))
    plain(from, to, n);
}
void convert(const float* from, BFloat16* to, std::int64_t n) noexcept {
  if (!to_bfloat(from, to, n))
    plain(from, to, n);
}

}  // namespace sluice::simd
#endif
