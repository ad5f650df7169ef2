#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/softmax_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/softmax_rows.cpp>
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

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

double joined(const double* lane) {
  double total = 0;
  for (std::int64_t j = 0; j < k_lanes; ++j)
    total += lane[j];
  return total;
}

// The last n < k_lanes elements, and behind them the first of those.
struct Tail {
  alignas(HWY_MAX_BYTES) float at[k_lanes];

  Tail(const float* x, std::int64_t n) {
    for (std::int64_t j = 0; j < k_lanes; ++j)
      at[j] = x[j < n ? j : 0];
  }
};

float largest(const float* x, std::int64_t n) {
  constexpr std::int64_t k_many = 4 * k_lanes;  // beside each other, for one comparison waits for the one before
  constexpr std::int64_t k_vectors = k_many / k_step;
  V best[k_vectors];
  for (V& value : best)
    value = -k_infinite<D>;
  const auto take = [&](std::int64_t k, const float* from) {
    const V value = load(from);
    best[k] = select(value > best[k], value, best[k]);
  };
  std::int64_t i = 0;
  for (; i + k_many <= n; i += k_many) {
    for (std::int64_t k = 0; k < k_vectors; ++k)
      take(k, x + i + k * k_step);
  }
  for (; i + k_step <= n; i += k_step)
    take(0, x + i);
  for (std::int64_t k = 1; k < k_vectors; ++k)
    best[0] = select(best[k] > best[0], best[k], best[0]);
  alignas(HWY_MAX_BYTES) float lane[k_step];
  hn::Store(best[0].v, D{}, lane);
  float result = lane[0];
  for (float value : lane)
    result = value > result ? value : result;
  for (; i < n; ++i)
    result = x[i] > result ? x[i] : result;
  return result;
}

// e^x of x <= 0, to two units in the last place; 0 where results would be denormal, NaN stays. Cody and Waite's
// reduction by ln 2 in two parts, the polynomial of Moshier's Cephes library (expf); 2^n is added to the exponent.
HWY_INLINE V exp_below(V x) {
  const hn::RebindToSigned<D> whole;
  const Truth<D> gone = x < -87.33f;
  const V from = select(gone, 0, x);
  const V shifted = fused(from, 1.44269504f, 12582912.0f);  // 1.5 * 2^23: the sum's low bits are the integer
  const V n = shifted - 12582912.0f;
  const V r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, from));
  const V p = polynomial(
      r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  const V y = fused(p * r, r, r) + 1;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(whole, shifted.v));
  const V power = hn::BitCast(D{}, hn::Add(hn::BitCast(whole, y.v), exponent));
  return select(gone, 0, select(y == y, power, y));
}

double exp_sum(const float* x, float shift, std::int64_t n, float* to) {
  Sums sums;
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
    for (std::int64_t j = 0; j < k_lanes; j += k_step) {
      const V y = exp_below(load(x + i + j) - shift);
      if (to != nullptr)
        hn::StoreU(y.v, D{}, to + i + j);
      sums.add(j, y);
    }
  }
  double lane[k_lanes];
  sums.store(lane);
  if (i < n) {
    const Tail tail(x + i, n - i);
    alignas(HWY_MAX_BYTES) float values[k_lanes];
    for (std::int64_t j = 0; j < k_lanes; j += k_step)
      hn::Store(exp_below(load(tail.at + j) - shift).v, D{}, values + j);
    for (std::int64_t j = 0; i < n; ++i, ++j) {
      lane[j] += static_cast<double>(values[j]);
      if (to != nullptr)
        to[i] = values[j];
    }
  }
  return joined(lane);
}

double sum(const float* a, const float* b, std::int64_t n) {
  Sums sums;
  std::int64_t i = 0;
  if (b == nullptr) {
    for (; i + k_lanes <= n; i += k_lanes)
      sums.add(a + i);
  } else {
    for (; i + k_lanes <= n; i += k_lanes)
      sums.add(a + i, b + i);
  }
  double lane[k_lanes];
  sums.store(lane);
  for (std::int64_t j = 0; i < n; ++i, ++j)
    lane[j] += static_cast<double>(a[i]) * (b == nullptr ? 1.0 : static_cast<double>(b[i]));
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
  HWY_INLINE V of(V x, V) const { return exp((x - largest) - log_of_sum) * factor; }
};
struct Gradient {
  V total;
  HWY_INLINE V of(V y, V dy) const { return y * (dy - total); }
};
struct LogGradient {
  V total;
  HWY_INLINE V of(V y, V dy) const { return dy - exp(y) * total; }
};

// to = f(a, b), all neighbours.
template <class F>
HWY_INLINE void map(const F& f, const float* a, const float* b, std::int64_t n, float* to) {
  std::int64_t i = 0;
  for (; i + k_step <= n; i += k_step)
    hn::StoreU(f.of(load(a + i), load(b + i)).v, D{}, to + i);
  if (i == n)
    return;
  const Tail left(a + i, n - i), right(b + i, n - i);
  alignas(HWY_MAX_BYTES) float values[k_step];
  hn::Store(f.of(load(left.at), load(right.at)).v, D{}, values);
  std::memcpy(to + i, values, static_cast<std::size_t>(n - i) * sizeof(float));
}
template <class F>
HWY_INLINE void map(const F& f, const float* a, const float* b, std::int64_t n, float* to, bool stream) {
  if (!stream)
    return map(f, a, b, n, to);
  for (std::int64_t i = 0; i < n; i += k_step)
    hn::Stream(f.of(load(a + i), load(b + i)).v, D{}, to + i);
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
  static constexpr SoftmaxRows k_rows{largest, exp_sum, sum, scale, shift, probability, gradient, log_gradient, finish};
  return &k_rows;
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
SLUICE_SIMD_TABLE(SoftmaxRows, softmax_rows, rows())
#endif
