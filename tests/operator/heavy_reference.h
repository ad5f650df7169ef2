#pragma once

// Plain loops in double: what matrix products, convolutions and pooling are compared with.
#include <algorithm>
#include <cmath>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/compare.h"

namespace sluice::test {

inline const std::vector<DType> k_heavy_dtypes = {float16, bfloat16, float32, float64};

/// Windows side by side, overlapping, cut off at the end, and as large as the image.
inline std::vector<PoolOptions> pool_options() {
  return {
      {.kernel = {2, 2}},
      {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}},
      {.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 1}, .ceil_mode = true, .count_include_pad = false},
      {.global = true}};
}

/// Tolerances for sums of about a hundred products of numbers below 1.
inline Tolerance sum_tolerance(DType dtype) noexcept {
  switch (dtype) {
    case DType::float64:
      return {1e-12, 1e-12};
    case DType::float16:
      return {2e-3, 4e-3};
    case DType::bfloat16:
      return {1.6e-2, 3e-2};
    default:
      return {1e-5, 1e-5};
  }
}

/// numpy.matmul for operands whose batch axes broadcast.
inline NDArray reference_matmul(const NDArray& a, const NDArray& b) {
  const bool row = a.ndim() == 1, column = b.ndim() == 1;
  const Shape as = row ? Shape{1, a.shape()[0]} : a.shape();
  const Shape bs = column ? Shape{b.shape()[0], 1} : b.shape();
  const auto av = a.to_vector<double>(), bv = b.to_vector<double>();
  const std::int64_t m = as[as.ndim() - 2], k = as.back(), n = bs.back();
  Shape a_batch, b_batch;
  for (int i = 0; i + 2 < as.ndim(); ++i)
    a_batch.push_back(as[i]);
  for (int i = 0; i + 2 < bs.ndim(); ++i)
    b_batch.push_back(bs[i]);
  const Shape batch = broadcast_shape(a_batch, b_batch, "reference");
  const Shape a_steps = broadcast_strides(a_batch, contiguous_strides(a_batch), batch, "reference");
  const Shape b_steps = broadcast_strides(b_batch, contiguous_strides(b_batch), batch, "reference");
  std::vector<double> values;
  for (std::int64_t linear = 0; linear < batch.size(); ++linear) {
    std::int64_t rest = linear, a_at = 0, b_at = 0;
    for (int axis = batch.ndim() - 1; axis >= 0; --axis) {
      a_at += rest % batch[axis] * a_steps[axis];
      b_at += rest % batch[axis] * b_steps[axis];
      rest /= batch[axis];
    }
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += av[(a_at * m + i) * k + p] * bv[(b_at * k + p) * n + j];
        values.push_back(sum);
      }
    }
  }
  Shape shape = batch;
  if (!row)
    shape.push_back(m);
  if (!column)
    shape.push_back(n);
  return array(values, shape);
}

inline NDArray reference_convolution(
    const NDArray& x, const NDArray& weight, const NDArray& bias, const ConvolutionOptions& o) {
  const Shape& xs = x.shape();
  const Shape& ws = weight.shape();
  const auto xv = x.to_vector<double>(), wv = weight.to_vector<double>();
  const auto bv = bias.defined() ? bias.to_vector<double>() : std::vector<double>(ws[0]);
  std::int64_t out[2];
  for (int i = 0; i < 2; ++i)
    out[i] = (xs[i + 2] + 2 * o.pad[i] - o.dilation[i] * (ws[i + 2] - 1) - 1) / o.stride[i] + 1;
  std::vector<double> values;
  const std::int64_t per_group = ws[0] / o.groups;
  for (std::int64_t n = 0; n < xs[0]; ++n)
    for (std::int64_t oc = 0; oc < ws[0]; ++oc)
      for (std::int64_t oy = 0; oy < out[0]; ++oy)
        for (std::int64_t ox = 0; ox < out[1]; ++ox) {
          double sum = bv[oc];
          for (std::int64_t ic = 0; ic < ws[1]; ++ic)
            for (std::int64_t ky = 0; ky < ws[2]; ++ky)
              for (std::int64_t kx = 0; kx < ws[3]; ++kx) {
                const std::int64_t iy = oy * o.stride[0] - o.pad[0] + ky * o.dilation[0];
                const std::int64_t ix = ox * o.stride[1] - o.pad[1] + kx * o.dilation[1];
                if (iy < 0 || iy >= xs[2] || ix < 0 || ix >= xs[3])
                  continue;
                const std::int64_t channel = oc / per_group * ws[1] + ic;
                sum += xv[((n * xs[1] + channel) * xs[2] + iy) * xs[3] + ix] *
                       wv[((oc * ws[1] + ic) * ws[2] + ky) * ws[3] + kx];
              }
          values.push_back(sum);
        }
  return array(values, {xs[0], ws[0], out[0], out[1]});
}

/// Max or mean of each window; `o.stride` given, not global.
inline NDArray reference_pool(const NDArray& x, const PoolOptions& o, bool is_max) {
  const Shape& xs = x.shape();
  const auto xv = x.to_vector<double>();
  std::int64_t out[2];
  for (int i = 0; i < 2; ++i) {
    const double steps = static_cast<double>(xs[i + 2] + 2 * o.pad[i] - o.kernel[i]) / static_cast<double>(o.stride[i]);
    out[i] = static_cast<std::int64_t>(o.ceil_mode ? std::ceil(steps) : std::floor(steps)) + 1;
    if (o.ceil_mode && (out[i] - 1) * o.stride[i] >= xs[i + 2] + o.pad[i])
      --out[i];
  }
  std::vector<double> values;
  for (std::int64_t plane = 0; plane < xs[0] * xs[1]; ++plane)
    for (std::int64_t oy = 0; oy < out[0]; ++oy)
      for (std::int64_t ox = 0; ox < out[1]; ++ox) {
        double most = -INFINITY, sum = 0, padded = 0, inside = 0;
        for (std::int64_t ky = 0; ky < o.kernel[0]; ++ky)
          for (std::int64_t kx = 0; kx < o.kernel[1]; ++kx) {
            const std::int64_t iy = oy * o.stride[0] - o.pad[0] + ky, ix = ox * o.stride[1] - o.pad[1] + kx;
            if (iy >= xs[2] + o.pad[0] || ix >= xs[3] + o.pad[1])
              continue;
            ++padded;
            if (iy < 0 || iy >= xs[2] || ix < 0 || ix >= xs[3])
              continue;
            ++inside;
            const double value = xv[(plane * xs[2] + iy) * xs[3] + ix];
            most = std::isnan(value) || std::isnan(most) ? NAN : std::max(most, value);
            sum += value;
          }
        values.push_back(is_max ? most : sum / (o.count_include_pad ? padded : inside));
      }
  return array(values, {xs[0], xs[1], out[0], out[1]});
}

}  // namespace sluice::test
