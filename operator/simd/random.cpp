#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/random/exact.h>
#include <sluice/operator/simd/random.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/random.cpp>
#include <hwy/foreach_target.h>

#include <sluice/operator/simd/detail/functions.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

using Word = hn::ScalableTag<std::uint32_t>;
using Pair = hn::ScalableTag<std::uint64_t>;
using Single = hn::ScalableTag<float>;
using V = Lanes<Single>;

// Words lie in the lower halves of 64-bit lanes: products take nothing else, so upper halves may hold anything.
struct Blocks {
  hn::Vec<Pair> word[4];

  HWY_INLINE explicit Blocks(hn::Vec<Pair> counter)
      : word{counter, hn::ShiftRight<32>(counter), hn::Zero(Pair{}), hn::Zero(Pair{})} {}
  HWY_INLINE void round(const hn::Vec<Pair>* key) {
    const auto product0 = product(word[0], 0xD2511F53u), product1 = product(word[2], 0xCD9E8D57u);
    word[0] = mixed(product1, word[1], key[0]);
    word[2] = mixed(product0, word[3], key[1]);
    word[1] = product1;
    word[3] = product0;
  }
  HWY_INLINE void store(std::uint32_t* to) const {
    hn::StoreInterleaved2(
        joined(word[0], word[1]), joined(word[2], word[3]), Pair{}, reinterpret_cast<std::uint64_t*>(to));
  }

 private:
  static HWY_INLINE hn::Vec<Pair> product(hn::Vec<Pair> a, std::uint32_t factor) {
    return hn::MulEven(hn::BitCast(Word{}, a), hn::Set(Word{}, factor));
  }
  static HWY_INLINE hn::Vec<Pair> mixed(hn::Vec<Pair> product, hn::Vec<Pair> other, hn::Vec<Pair> key) {
    return hn::Xor(hn::Xor(hn::ShiftRight<32>(product), other), key);
  }
  static HWY_INLINE hn::Vec<Pair> joined(hn::Vec<Pair> low, hn::Vec<Pair> high) {
    return hn::Or(hn::And(low, hn::Set(Pair{}, 0xffffffffu)), hn::ShiftLeft<32>(high));
  }
};

void words(const RandomBlock& random, std::uint64_t block, std::int64_t n, std::uint32_t* to) {
  constexpr int k_rounds = 10;
  constexpr std::int64_t lanes = hn::MaxLanes(Pair{});
  hn::Vec<Pair> keys[2 * k_rounds];
  auto key0 = static_cast<std::uint32_t>(random.seed), key1 = static_cast<std::uint32_t>(random.seed >> 32);
  for (int round = 0; round < k_rounds; ++round) {
    keys[2 * round] = hn::Set(Pair{}, key0);
    keys[2 * round + 1] = hn::Set(Pair{}, key1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const auto step = hn::Set(Pair{}, static_cast<std::uint64_t>(lanes));
  auto counter = hn::Add(hn::Iota(Pair{}, 0), hn::Set(Pair{}, random.offset + block));
  // Two beside each other, for a round waits for the one before.
  for (std::int64_t i = 0; i < n; i += 8 * lanes) {
    Blocks left(counter), right(hn::Add(counter, step));
    for (int round = 0; round < k_rounds; ++round) {
      left.round(keys + 2 * round);
      right.round(keys + 2 * round);
    }
    left.store(to + i);
    right.store(to + i + 4 * lanes);
    counter = hn::Add(counter, hn::Add(step, step));
  }
}

// Plain loops, which become vectors.
void uniform(const std::uint32_t* words, float low, float span, float below, std::int64_t n, float* HWY_RESTRICT to) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float y = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24f * span + low;
    to[i] = y < below ? y : below;
  }
}

void drop(const std::uint32_t* words, std::uint64_t threshold, const float* x, float scale, std::int64_t n, float* to) {
  const bool none = threshold == 0;
  const auto last = static_cast<std::uint32_t>(threshold - 1);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float y = x[i] * scale;
    to[i] = (words[i] <= last) & !none ? 0.0f : y;
  }
}

// Of angles from 0 to 2 pi: Cody and Waite's reduction by quarter turns, the polynomials of Moshier's Cephes library.
struct Turn {
  V sine, cosine;

  HWY_INLINE explicit Turn(V angle) {
    const hn::RebindToSigned<Single> whole;
    const auto quarter = hn::NearestInt((angle * 0.636619772f).v);
    const V q = hn::ConvertTo(Single{}, quarter);
    const V r = fused(q, 4.37113883e-8f, fused(q, -1.57079637f, angle)), z = r * r;
    const V s = fused(polynomial(z, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f) * z, r, r);
    const V c = fused(
        polynomial(z, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f) * z, z, fused(z, -0.5f, 1));
    const auto one = hn::Set(whole, 1), two = hn::Set(whole, 2);
    const Truth<Single> odd{hn::RebindMask(Single{}, hn::Eq(hn::And(quarter, one), one))};
    sine = turned(select(odd, c, s), hn::And(quarter, two));
    cosine = turned(select(odd, s, c), hn::And(hn::Add(quarter, one), two));
  }

 private:
  // Negative where `bit` is 2, as it is where 0.
  template <class Bits>
  static HWY_INLINE V turned(V x, Bits bit) {
    return hn::Xor(x.v, hn::BitCast(Single{}, hn::ShiftLeft<30>(bit)));
  }
};

void normal(const std::uint32_t* words, float mean, float deviation, std::int64_t n, float* to) {
  constexpr std::int64_t lanes = hn::MaxLanes(Single{});
  const auto number = [](auto word) {
    return V(hn::ConvertTo(Single{}, hn::BitCast(hn::RebindToSigned<Single>{}, word)));
  };
  const V center = mean, width = deviation;
  for (std::int64_t i = 0; i < n; i += 2 * lanes) {
    hn::Vec<Word> first, second;
    hn::LoadInterleaved2(Word{}, words + i, first, second);
    // All 32 bits, rounded once.
    const V upper = number(hn::ShiftRight<16>(first)), lower = number(hn::And(first, hn::Set(Word{}, 0xffff)));
    const V positive = (upper * 65536 + lower) * 0x1p-32f + 0x1p-33f;
    const V radius = hn::Sqrt((V(hn::Log(Single{}, positive.v)) * -2).v);
    const Turn turn(number(hn::ShiftRight<8>(second)) * 0x1p-24f * 6.283185307179586);
    const V even = radius * turn.cosine * width + center, odd = radius * turn.sine * width + center;
    hn::StoreInterleaved2(even.v, odd.v, Single{}, to + i);
  }
}

// No product and sum become one: each is rounded, as everywhere.
void log(double* x, std::int64_t n) {
  using Double = hn::ScalableTag<double>;
  using N = Lanes<Double>;
  using detail::ExactLog;
  const hn::RebindToSigned<Double> whole;
  const Pair d;
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(Double{}))) {
    const auto bits = hn::BitCast(d, hn::LoadU(Double{}, x + i));
    const auto mantissa = hn::And(bits, hn::Set(d, 0xfffffffffffffu));
    const N between = hn::BitCast(Double{}, hn::Or(mantissa, hn::Set(d, 0x3ff0000000000000u)));
    const auto is_large = between > N(ExactLog::k_most_mantissa);
    const N m = select(is_large, between * N(0.5), between);
    const N exponent = hn::ConvertTo(Double{}, hn::BitCast(whole, hn::ShiftRight<52>(bits)));
    const N e = select(is_large, exponent - N(1022), exponent - N(1023));
    const N s = (m - N(1)) / (m + N(1)), z = s * s, twice = N(2) * s;
    N series = 1.0 / ExactLog::k_last_term;
    for (int k = ExactLog::k_last_term - 2; k >= 3; k -= 2)
      series = series * z + N(1.0 / k);
    const N sum = e * N(ExactLog::k_two_high) + (twice + (twice * z * series + e * N(ExactLog::k_two_low)));
    hn::StoreU(sum.v, Double{}, x + i);
  }
}

const RandomRows* rows() noexcept {
  static constexpr RandomRows k_rows{words, uniform, normal, drop, log};
  return &k_rows;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(RandomRows, random_rows, rows())
#endif
