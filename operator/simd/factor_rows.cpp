#include <algorithm>
#include <limits>

#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/factor_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/factor_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Double = hn::ScalableTag<double>;
using Single = hn::Rebind<float, Double>;
using Whole = hn::RebindToSigned<Double>;
constexpr std::int64_t k_step = hn::MaxLanes(Double{}), k_beside = ProductParts::k_parts / k_step;
constexpr int k_mantissa_bits = 52, k_bias = 1023;

/// n floats from there on, 1 behind them, as doubles; `plain` stays where they are no 0, infinity or NaN.
HWY_INLINE hn::Vec<Double> factors_at(const float* x, std::int64_t n, hn::Mask<Single>& plain) {
  const Single d;
  const auto there = hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(n, 0, k_step)));
  const auto value = n >= k_step ? hn::LoadU(d, x) : hn::IfThenElse(there, hn::MaskedLoad(there, d, x), hn::Set(d, 1));
  const auto size = hn::Abs(value);
  const auto finite = hn::Le(size, hn::Set(d, std::numeric_limits<float>::max()));
  plain = hn::And(plain, hn::And(hn::Gt(size, hn::Zero(d)), finite));
  return hn::PromoteTo(Double{}, value);
}

bool product(const float* x, std::int64_t n, ProductParts* parts) {
  // So many factors, whatever they are, and a number near 1 have a product that is a normal double.
  constexpr std::int64_t k_fitting = 4;
  const Double d;
  const Whole whole;
  const auto exponent_bits = hn::Set(whole, std::int64_t{0x7ff} << k_mantissa_bits);
  const auto one_bits = hn::Set(whole, std::int64_t{k_bias} << k_mantissa_bits);
  hn::Mask<Single> plain = hn::FirstN(Single{}, static_cast<std::size_t>(k_step));
  hn::Vec<Double> number[k_beside];
  hn::Vec<Whole> exponent[k_beside];
  for (std::int64_t k = 0; k < k_beside; ++k) {
    number[k] = hn::Set(d, 1);
    exponent[k] = hn::Zero(whole);
  }
  for (std::int64_t i = 0; i < n; i += k_fitting * ProductParts::k_parts) {
    for (std::int64_t k = 0; k < k_beside; ++k) {
      hn::Vec<Double> made = number[k];
      for (std::int64_t factor = 0; factor < k_fitting; ++factor) {
        const std::int64_t at = i + factor * ProductParts::k_parts + k * k_step;
        if (at < n)
          made = hn::Mul(made, factors_at(x + at, n - at, plain));
      }
      const auto bits = hn::BitCast(whole, made);
      exponent[k] = hn::Add(exponent[k], hn::ShiftRight<k_mantissa_bits>(hn::And(bits, exponent_bits)));
      exponent[k] = hn::Sub(exponent[k], hn::Set(whole, k_bias));
      number[k] = hn::BitCast(d, hn::Or(hn::AndNot(exponent_bits, bits), one_bits));
    }
  }
  for (std::int64_t k = 0; k < k_beside; ++k) {
    hn::StoreU(number[k], d, parts->number + k * k_step);
    hn::StoreU(exponent[k], whole, parts->exponent + k * k_step);
  }
  return hn::AllTrue(Single{}, plain);
}

void others(const float* x, std::int64_t n, double number, const double (&scale)[2], double dy, float* to) {
  const Double d;
  const Single single;
  hn::Mask<Single> plain = hn::FirstN(single, static_cast<std::size_t>(k_step));
  for (std::int64_t i = 0; i < n; i += k_step) {
    const auto ratio = hn::Div(hn::Set(d, number), factors_at(x + i, n - i, plain));
    const auto scaled = hn::Mul(hn::Mul(ratio, hn::Set(d, scale[0])), hn::Set(d, scale[1]));
    const auto result = hn::DemoteTo(single, hn::Mul(hn::Set(d, dy), scaled));
    if (i + k_step <= n)
      hn::StoreU(result, single, to + i);
    else
      hn::BlendedStore(result, hn::FirstN(single, static_cast<std::size_t>(n - i)), single, to + i);
  }
}

const FactorRows* table() noexcept {
  static constexpr FactorRows k_rows{product, others};
  return &k_rows;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(FactorRows, factor_rows, table())
#endif
