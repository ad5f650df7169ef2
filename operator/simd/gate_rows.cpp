#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/gate_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/gate_rows.cpp>
#include <algorithm>
#include <hwy/foreach_target.h>

#include <sluice/operator/simd/detail/special.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = Lanes<D>;
constexpr std::int64_t k_step = hn::MaxLanes(D{});

// e^x of x <= 0; whoever calls it sees to NaN.
HWY_INLINE V decay(V x) {
  return hn::Exp(D{}, x.v);
}
HWY_INLINE V opened(V x) {
  const V e = decay(-abs(x));
  return select(is_nan(x), x, select(x < 0, e, 1) / (1 + e));
}
// Near 0 its series: the quotient would keep no digits there.
HWY_INLINE V squashed(V x) {
  const V square = x * x, e = decay(-(abs(x) + abs(x)));
  const V series = polynomial(square, 62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3, 1.0) * x;
  const V far = with_sign_of((1 - e) / (1 + e), x);
  return select(is_nan(x), x, select(abs(x) < 0.25, series, far));
}

#define GATE_INLINE HWY_INLINE
#define GATE_LAMBDA HWY_ATTR
#include <sluice/operator/rnn/gates.def>
#undef GATE_INLINE
#undef GATE_LAMBDA

// Calls of(i, at, put) for whole vectors, then for what is left through memory of a vector.
template <class Of>
HWY_INLINE void along(std::int64_t n, const Of& of) {
  std::int64_t i = 0;
  for (; i + k_step <= n; i += k_step) {
    of(
        i,
        [](const float* from) HWY_ATTR { return hn::LoadU(D{}, from); },
        [](V v, float* to) HWY_ATTR { hn::StoreU(v.v, D{}, to); });
  }
  if (i == n)
    return;
  const std::int64_t left = n - i;
  of(
      i,
      [left](const float* from) HWY_ATTR {
        alignas(HWY_MAX_BYTES) float all[k_step] = {};
        std::copy_n(from, left, all);
        return hn::Load(D{}, all);
      },
      [left](V v, float* to) HWY_ATTR {
        alignas(HWY_MAX_BYTES) float all[k_step];
        hn::Store(v.v, D{}, all);
        std::copy_n(all, left, to);
      });
}

void forward(RnnMode mode, const GateStep<float>& step) {
  along(step.n, [&](std::int64_t i, const auto& at, const auto& put) HWY_ATTR {
    forward_units<V>(mode, step, i, at, put);
  });
}

void backward(RnnMode mode, const GateStepBack<float>& step) {
  along(step.n, [&](std::int64_t i, const auto& at, const auto& put) HWY_ATTR {
    backward_units<V>(mode, step, i, at, put);
  });
}

const GateRows* table() noexcept {
  static constexpr GateRows k_rows{forward, backward};
  return &k_rows;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(GateRows, gate_rows, table())
#endif
