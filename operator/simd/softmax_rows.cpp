#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/softmax_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/softmax_rows.cpp>
#include <algorithm>
#include <cstring>
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include <sluice/operator/simd/detail/exponential.h>
#include <sluice/operator/simd/detail/formulas.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using Wide = hn::ScalableTag<double>;
using V = Lanes<D>;
constexpr std::int64_t k_lanes = 16;
constexpr std::int64_t k_step = hn::MaxLanes(D{});

HWY_INLINE V load(const float* x) {
  return hn::LoadU(D{}, x);
}

// Sixteen running sums in double.
struct Sums {
  static constexpr int k_lanes_each = hn::MaxLanes(Wide{});
  static constexpr int k_vectors = static_cast<int>(k_lanes) / k_lanes_each;
  hn::Vec<Wide> parts[k_vectors];

  HWY_INLINE Sums() {
    for (hn::Vec<Wide>& part : parts)
      part = hn::Zero(Wide{});
  }
  HWY_INLINE void add(const float* x) {
    for (int k = 0; k < k_vectors; ++k)
      parts[k] = hn::Add(parts[k], wide(x, k));
  }
  HWY_INLINE void add(const float* a, const float* b) {
    for (int k = 0; k < k_vectors; ++k)
      parts[k] = hn::Add(parts[k], hn::Mul(wide(a, k), wide(b, k)));
  }
  // `at`: of the sixteen, where this vector begins.
  HWY_INLINE void add(std::int64_t at, V x) {
    const hn::Half<D> half;
    const auto k = at / k_lanes_each;
    parts[k] = hn::Add(parts[k], hn::PromoteTo(Wide{}, hn::LowerHalf(half, x.v)));
    parts[k + 1] = hn::Add(parts[k + 1], hn::PromoteTo(Wide{}, hn::UpperHalf(half, x.v)));
  }
  HWY_INLINE void join(const Sums& others) {
    for (int k = 0; k < k_vectors; ++k)
      parts[k] = hn::Add(parts[k], others.parts[k]);
  }
  HWY_INLINE void store(double* lane) const {
    for (int k = 0; k < k_vectors; ++k)
      hn::StoreU(parts[k], Wide{}, lane + k * k_lanes_each);
  }

 private:
  static HWY_INLINE hn::Vec<Wide> wide(const float* x, int k) {
    const hn::Rebind<float, Wide> narrow;
    return hn::PromoteTo(Wide{}, hn::LoadU(narrow, x + k * k_lanes_each));
  }
};

// The parts of a sum, always in this order.
double joined(double (&lane)[k_lanes]) {
  for (std::int64_t width = k_lanes / 2; width > 0; width /= 2) {
    for (std::int64_t j = 0; j < width; ++j)
      lane[j] += lane[j + width];
  }
  return lane[0];
}

// The ends of rows, n < k_step elements. Where vectors have no masks they would be touched beyond the end.
constexpr bool k_masked = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

HWY_INLINE V load(const float* x, std::int64_t n, float others) {
  if constexpr (k_masked) {
    const auto first = hn::FirstN(D{}, static_cast<std::size_t>(n));
    return hn::IfThenElse(first, hn::MaskedLoad(first, D{}, x), hn::Set(D{}, others));
  } else {
    alignas(HWY_MAX_BYTES) float at[k_step];
    for (std::int64_t j = 0; j < k_step; ++j)
      at[j] = j < n ? x[j] : others;
    return hn::Load(D{}, at);
  }
}
HWY_INLINE void store(V y, float* to, std::int64_t n) {
  if constexpr (k_masked) {
    hn::BlendedStore(y.v, hn::FirstN(D{}, static_cast<std::size_t>(n)), D{}, to);
  } else {
    alignas(HWY_MAX_BYTES) float at[k_step];
    hn::Store(y.v, D{}, at);
    std::memcpy(to, at, static_cast<std::size_t>(n) * sizeof(float));
  }
}
HWY_INLINE V first(V y, std::int64_t n) {
  return hn::IfThenElseZero(hn::FirstN(D{}, static_cast<std::size_t>(n)), y.v);
}

// The larger, `best` if `value` is NaN: what x86 has an instruction for.
HWY_INLINE V larger(V value, V best) {
  if constexpr (k_masked) {
    return hn::Max(value.v, best.v);
  } else {
    return select(value > best, value, best);
  }
}

float largest(const float* x, std::int64_t n) {
  constexpr std::int64_t k_many = 4 * k_lanes;  // beside each other, for one comparison waits for the one before
  constexpr std::int64_t k_vectors = k_many / k_step;
  V best[k_vectors];
  for (V& value : best)
    value = -k_infinite<D>;
  std::int64_t i = 0;
  for (; i + k_many <= n; i += k_many) {
    for (std::int64_t k = 0; k < k_vectors; ++k)
      best[k] = larger(load(x + i + k * k_step), best[k]);
  }
  for (; i + k_step <= n; i += k_step)
    best[0] = larger(load(x + i), best[0]);
  if (i < n)
    best[1] = larger(load(x + i, n - i, -k_infinite<D>), best[1]);
  for (std::int64_t k = 1; k < k_vectors; ++k)
    best[0] = larger(best[k], best[0]);
  return hn::GetLane(hn::MaxOfLanes(D{}, best[0].v));
}

double exp_sum(const float* x, float shift, std::int64_t n, float* to, Ahead next) {
  constexpr std::int64_t k_block = 4 * k_lanes;
  Sums sums;
  const auto powers = [&](std::int64_t i) {
    const V y = exp_below(load(x + i) - shift);
    if (to != nullptr)
      hn::StoreU(y.v, D{}, to + i);
    return y;
  };
  const char* ahead = static_cast<const char*>(next.data);
  const char* const ahead_end = ahead + next.bytes;
  std::int64_t i = 0;
  // Four are added up as floats: conversions would cost as much as the powers.
  for (; i + k_block <= n; i += k_block) {
    for (int k = 0; k < 4 && ahead < ahead_end; ++k, ahead += 64)
      __builtin_prefetch(ahead, 0, 3);
    for (std::int64_t j = 0; j < k_lanes; j += k_step) {
      const V a = powers(i + j), b = powers(i + j + k_lanes);
      const V c = powers(i + j + 2 * k_lanes), d = powers(i + j + 3 * k_lanes);
      sums.add(j, (a + b) + (c + d));
    }
  }
  for (; i + k_lanes <= n; i += k_lanes) {
    for (std::int64_t j = 0; j < k_lanes; j += k_step)
      sums.add(j, powers(i + j));
  }
  for (std::int64_t j = 0; j < k_lanes; j += k_step, i += k_step) {
    if (i + k_step <= n) {
      sums.add(j, powers(i));
    } else if (i < n) {
      const V y = exp_below(load(x + i, n - i, shift) - shift);
      sums.add(j, first(y, n - i));
      if (to != nullptr)
        store(y, to + i, n - i);
    }
  }
  double lane[k_lanes];
  sums.store(lane);
  return joined(lane);
}

HWY_INLINE void join(V x, float* pairs) {
  hn::Vec<D> best, sums;
  hn::LoadInterleaved2(D{}, pairs, best, sums);
  const V largest(best), total(sums);
  const auto stays = largest >= x;
  const V apart = select(largest == x, 0, select(stays, x - largest, largest - x)), power = exp_below(apart);
  const V joined = select(stays, total + power, total * power + 1);
  hn::StoreInterleaved2(select(stays, largest, x).v, joined.v, D{}, pairs);
}

void join(const float* x, std::int64_t n, float* pairs) {
  std::int64_t i = 0;
  for (; i + k_step <= n; i += k_step)
    join(load(x + i), pairs + 2 * i);
  if (i == n)
    return;
  alignas(HWY_MAX_BYTES) float last[2 * k_step] = {};
  const std::size_t bytes = static_cast<std::size_t>(2 * (n - i)) * sizeof(float);
  std::memcpy(last, pairs + 2 * i, bytes);
  join(load(x + i, n - i, 0), last);
  std::memcpy(pairs + 2 * i, last, bytes);
}

double sum(const float* a, const float* b, std::int64_t n) {
  Sums sums;
  std::int64_t i = 0;
  if (b == nullptr) {
    Sums beside[3];  // of one alone each sum would wait for the one before
    for (; i + 4 * k_lanes <= n; i += 4 * k_lanes) {
      for (std::int64_t line = 0; line < 4 * k_lanes; line += 16)
        __builtin_prefetch(a + i + 512 + line);  // behind an end nothing happens
      sums.add(a + i);
      for (int k = 0; k < 3; ++k)
        beside[k].add(a + i + (k + 1) * k_lanes);
    }
    for (const Sums& each : beside)
      sums.join(each);
    for (; i + k_lanes <= n; i += k_lanes)
      sums.add(a + i);
  } else {
    for (; i + k_lanes <= n; i += k_lanes)
      sums.add(a + i, b + i);
  }
  if (i < n) {
    alignas(HWY_MAX_BYTES) float left[k_lanes] = {}, right[k_lanes] = {};
    for (std::int64_t j = 0; i + j < n; j += k_step) {
      const std::int64_t count = std::min(k_step, n - i - j);
      hn::Store((count == k_step ? load(a + i + j) : load(a + i + j, count, 0)).v, D{}, left + j);
      if (b != nullptr)
        hn::Store((count == k_step ? load(b + i + j) : load(b + i + j, count, 0)).v, D{}, right + j);
    }
    b == nullptr ? sums.add(left) : sums.add(left, right);
  }
  double lane[k_lanes];
  sums.store(lane);
  return joined(lane);
}

struct Scale {
  V factor;
  HWY_INLINE V of(V x, V) const { return x * factor; }
};
struct Shift {
  V largest, log_of_sum;
  HWY_INLINE V of(V x, V) const { return (x - largest) - log_of_sum; }
};
struct Probability {
  V largest, log_of_sum, factor;
  HWY_INLINE V of(V x, V) const { return exp_below((x - largest) - log_of_sum) * factor; }
};
struct Gradient {
  V total;
  HWY_INLINE V of(V y, V dy) const { return y * (dy - total); }
};
struct LogGradient {
  V total;
  HWY_INLINE V of(V y, V dy) const { return dy - exp_below(y) * total; }
};

// to = f(a, b), all neighbours.
template <class F>
HWY_INLINE void map(const F& f, const float* a, const float* b, std::int64_t n, float* to) {
  std::int64_t i = 0;
  for (; i + k_step <= n; i += k_step)
    hn::StoreU(f.of(load(a + i), load(b + i)).v, D{}, to + i);
  if (i < n)
    store(f.of(load(a + i, n - i, 0), load(b + i, n - i, 0)), to + i, n - i);
}
// With `stream` whole lines go past the caches; those that another row shares do not.
template <class F>
HWY_INLINE void map(const F& f, const float* a, const float* b, std::int64_t n, float* to, bool stream) {
  constexpr std::int64_t k_line = 64 / sizeof(float);
  if (!stream)
    return map(f, a, b, n, to);
  const auto beyond = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) / sizeof(float)) % k_line;
  std::int64_t i = std::min(n, (k_line - beyond) % k_line);
  map(f, a, b, i, to);
  for (; i + k_line <= n; i += k_line) {
    for (std::int64_t j = i; j < i + k_line; j += k_step)
      hn::Stream(f.of(load(a + j), load(b + j)).v, D{}, to + j);
  }
  map(f, a + i, b + i, n - i, to + i);
}

void scale(const float* x, float factor, std::int64_t n, float* to, bool stream) {
  map(Scale{factor}, x, x, n, to, stream);
}
void shift(const float* x, float largest, float log_of_sum, std::int64_t n, float* to, bool stream) {
  map(Shift{largest, log_of_sum}, x, x, n, to, stream);
}
void probability(const float* x, float largest, float log_of_sum, float factor, std::int64_t n, float* to) {
  map(Probability{largest, log_of_sum, factor}, x, x, n, to);
}
void gradient(const float* y, const float* dy, float total, std::int64_t n, float* to, bool stream) {
  map(Gradient{total}, y, dy, n, to, stream);
}
void log_gradient(const float* y, const float* dy, float total, std::int64_t n, float* to, bool stream) {
  map(LogGradient{total}, y, dy, n, to, stream);
}
void finish() {
  hwy::FlushStream();
}

const SoftmaxRows* rows() noexcept {
  static constexpr SoftmaxRows k_rows{
      largest, exp_sum, join, sum, scale, shift, probability, gradient, log_gradient, finish};
  return &k_rows;
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(SoftmaxRows, softmax_rows, rows())
#endif
