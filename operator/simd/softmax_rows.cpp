#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/softmax_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/softmax_rows.cpp>
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
  V best[k_lanes / k_step];
  for (V& value : best)
    value = -k_infinite<D>;
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
    for (std::int64_t j = 0; j < k_lanes / k_step; ++j) {
      const V value = load(x + i + j * k_step);
      best[j] = select(value > best[j], value, best[j]);
    }
  }
  alignas(HWY_MAX_BYTES) float lane[k_lanes];
  for (std::int64_t j = 0; j < k_lanes / k_step; ++j)
    hn::Store(best[j].v, D{}, lane + j * k_step);
  for (std::int64_t j = 0; i < n; ++i, ++j)
    lane[j] = x[i] > lane[j] ? x[i] : lane[j];
  for (std::int64_t j = 1; j < k_lanes; ++j)
    lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
  return lane[0];
}

HWY_INLINE void exps(const float* x, float shift, float* to) {
  for (std::int64_t j = 0; j < k_lanes; j += k_step)
    hn::StoreU(exp(load(x + j) - shift).v, D{}, to + j);
}

double exp_sum(const float* x, float shift, std::int64_t n, float* to) {
  Sums sums;
  alignas(HWY_MAX_BYTES) float spare[k_lanes];
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
    float* const here = to != nullptr ? to + i : spare;
    exps(x + i, shift, here);
    sums.add(here);
  }
  double lane[k_lanes];
  sums.store(lane);
  if (i < n) {
    exps(Tail(x + i, n - i).at, shift, spare);
    for (std::int64_t j = 0; i < n; ++i, ++j) {
      lane[j] += static_cast<double>(spare[j]);
      if (to != nullptr)
        to[i] = spare[j];
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

void scale(const float* x, float factor, std::int64_t n, float* to) {
  map(Scale{factor}, x, x, n, to);
}
void shift(const float* x, float largest, float log_of_sum, std::int64_t n, float* to) {
  map(Shift{largest, log_of_sum}, x, x, n, to);
}
void probability(const float* x, float largest, float log_of_sum, float factor, std::int64_t n, float* to) {
  map(Probability{largest, log_of_sum, factor}, x, x, n, to);
}
void gradient(const float* y, const float* dy, float total, std::int64_t n, float* to) {
  map(Gradient{total}, y, dy, n, to);
}
void log_gradient(const float* y, const float* dy, float total, std::int64_t n, float* to) {
  map(LogGradient{total}, y, dy, n, to);
}

const SoftmaxRows* rows() noexcept {
  static constexpr SoftmaxRows k_rows{largest, exp_sum, sum, scale, shift, probability, gradient, log_gradient};
  return &k_rows;
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

const SoftmaxRows* softmax_rows() noexcept {
  SLUICE_SIMD_RETURN(rows())
  return nullptr;
}

}  // namespace sluice::simd
#endif
