#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/simd/rows.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_grain = 16 * 1024;  // elements worth a thread

// Planes: eight running sums, so that the additions overlap.
template <class T>
double sum_run(const T* x, std::int64_t n) {
  double lanes[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane)
      lanes[lane] += static_cast<double>(x[i + lane]);
  }
  for (; i < n; ++i)
    lanes[0] += static_cast<double>(x[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

template <class T>
void sum_channels(const ChannelView& v, const T* x, T* sums) {
  const std::int64_t grain =
      std::max<std::int64_t>(v.inner == 1 ? 16 : 1, k_grain / std::max<std::int64_t>(1, v.outer * v.inner));
  parallel_for(v.channels, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> totals(end - begin);
    for (std::int64_t o = 0; o < v.outer; ++o) {
      const T* row = x + (o * v.channels + begin) * v.inner;
      for (std::int64_t c = 0; c < end - begin; ++c)
        totals[c] += v.inner == 1 ? static_cast<double>(row[c]) : sum_run(row + c * v.inner, v.inner);
    }
    for (std::int64_t c = begin; c < end; ++c)
      sums[c] = T(static_cast<Compute<T>>(totals[c - begin]));
  });
}

// relu of half types by their bits, as whole numbers: below those of a negative NaN lie all other negative ones.
template <class T>
void relu_values(T* values, std::int64_t n) {
  constexpr std::int16_t k_minus_infinity = std::is_same_v<T, BFloat16> ? -0x80 : -0x400;
  auto* const words = reinterpret_cast<std::int16_t*>(values);
  for (std::int64_t i = 0; i < n; ++i)
    words[i] = words[i] > k_minus_infinity ? words[i] : std::int16_t{0};
}

void relu_values(float* values, std::int64_t n) {
  relu_floats(values, n);
}

template <class T>
void add_channels(const ChannelView& v, T* y, const T* bias, bool relu) {
  using Acc = Compute<T>;
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, v.inner));
  parallel_for(v.outer * v.channels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const Acc add = bias == nullptr ? Acc{} : static_cast<Acc>(bias[plane % v.channels]);
      T* at = y + plane * v.inner;
      if constexpr (sizeof(T) == 2 || std::is_same_v<T, float>) {
        if (bias == nullptr && relu) {
          relu_values(at, v.inner);
          continue;
        }
      }
      for (std::int64_t i = 0; i < v.inner; ++i) {
        const Acc value = static_cast<Acc>(at[i]) + add;
        at[i] = T(relu && value <= Acc{} ? Acc{} : value);
      }
    }
  });
}

// What is not there changes nothing: not even the sign of a zero or the payload of a NaN.
template <bool has_scale, bool has_shift, bool has_residual, class T>
void finish_plane(std::int64_t n, T* at, Compute<T> scale, Compute<T> shift, const T* residual, bool relu) {
  using Acc = Compute<T>;
  for (std::int64_t i = 0; i < n; ++i) {
    Acc value = static_cast<Acc>(at[i]);
    if constexpr (has_scale)
      value *= scale;
    if constexpr (has_shift)
      value += shift;
    if constexpr (has_residual)
      value += static_cast<Acc>(residual[i]);
    at[i] = T(relu && value <= Acc{} ? Acc{} : value);
  }
}

template <bool has_scale, bool has_shift, bool has_residual, class T>
void finish_channels(const ChannelView& v, T* y, const ChannelEpilogue& then) {
  using Acc = Compute<T>;
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, v.inner));
  parallel_for(v.outer * v.channels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t channel = plane % v.channels;
      finish_plane<has_scale, has_shift, has_residual>(
          v.inner,
          y + plane * v.inner,
          has_scale ? static_cast<const Acc*>(then.scale)[channel] : Acc{},
          has_shift ? static_cast<const Acc*>(then.shift)[channel] : Acc{},
          has_residual ? static_cast<const T*>(then.residual) + plane * v.inner : nullptr,
          then.relu);
    }
  });
}

template <class T>
void finish_channels(const ChannelView& v, T* y, const ChannelEpilogue& then) {
  const auto with_shift = [&]<bool has_scale, bool has_shift>() {
    then.residual != nullptr ? finish_channels<has_scale, has_shift, true>(v, y, then)
                             : finish_channels<has_scale, has_shift, false>(v, y, then);
  };
  const auto with_scale = [&]<bool has_scale>() {
    then.shift != nullptr ? with_shift.template operator()<has_scale, true>()
                          : with_shift.template operator()<has_scale, false>();
  };
  then.scale != nullptr ? with_scale.template operator()<true>() : with_scale.template operator()<false>();
}

}  // namespace

void channel_sum_cpu(const ChannelView& view, const void* x, void* sums) {
  by_floating(view.dtype, [&]<class T>() { sum_channels(view, static_cast<const T*>(x), static_cast<T*>(sums)); });
}

double plane_sum_cpu(const float* x, std::int64_t n) {
  return sum_run(x, n);
}

void channel_totals_cpu(std::int64_t outer, std::int64_t channels, const double* planes, float* sums) {
  for (std::int64_t c = 0; c < channels; ++c) {
    double total = 0;
    for (std::int64_t o = 0; o < outer; ++o)
      total += planes[o * channels + c];
    sums[c] = static_cast<float>(total);
  }
}

void relu_floats(float* x, std::int64_t n) {
  const PointwiseLoop vectors = simd::unary_loop<float>(Unary::relu);
  if (vectors != nullptr) {
    const void* const in[] = {x};
    return vectors(x, in, n, false);
  }
  for (std::int64_t i = 0; i < n; ++i)
    x[i] = x[i] <= 0 ? 0 : x[i];
}

void relu_floats_backward(const float* dy, const float* y, std::int64_t n, float* dx) {
  const PointwiseLoop vectors = simd::unary_backward_loop<float>(Unary::relu);
  if (vectors != nullptr) {
    const void* const in[] = {dy, y, y};
    return vectors(dx, in, n, false);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const float grad = dy[i];  // read in any case: a choice between numbers, not between ways to go
    dx[i] = y[i] <= 0 ? 0 : grad;
  }
}

void channel_add_cpu(const ChannelView& view, void* y, const void* bias, bool relu) {
  by_floating(
      view.dtype, [&]<class T>() { add_channels(view, static_cast<T*>(y), static_cast<const T*>(bias), relu); });
}

void channel_finish_cpu(const ChannelView& view, void* y, const ChannelEpilogue& then) {
  if (!then.empty())
    by_floating(view.dtype, [&]<class T>() { finish_channels(view, static_cast<T*>(y), then); });
}

}  // namespace sluice::detail
