#pragma once

#include <cstdint>

#include <sluice/engine/queue.h>
#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// A contiguous array seen as (outer, channels, inner).
struct ChannelView {
  std::int64_t outer = 0, channels = 0, inner = 0;
  DType dtype = DType::float32;

  std::int64_t size() const noexcept { return outer * channels * inner; }
};

/// sums[c] = sum of x[:, c, :], in a fixed order. Floating types; float64 sums on a CPU, float (float64 for float64)
/// on a GPU. Zero for no elements.
void channel_sum_cpu(const ChannelView& view, const void* x, void* sums);
/// Of float32 in two steps: sums of one plane, x[o, c, :], and of theirs, which stand as (outer, channels).
double plane_sum_cpu(const float* x, std::int64_t n);
void channel_totals_cpu(std::int64_t outer, std::int64_t channels, const double* planes, float* sums);
void channel_sum_gpu(const Queue& queue, const ChannelView& view, const void* x, void* sums);

/// relu of neighbours on a CPU, and what it leaves of a gradient.
void relu_floats(float* x, std::int64_t n);
void relu_floats_backward(const float* dy, const float* y, std::int64_t n, float* dx);
/// y[:, c, :] += bias[c], then relu if asked for.
void channel_add_cpu(const ChannelView& view, void* y, const void* bias, bool relu);
void channel_add_gpu(const Queue& queue, const ChannelView& view, void* y, const void* bias, bool relu);

/// What comes behind sums of channels. Null: nothing. scale and shift are a number a channel, float of all types but
/// float64; bias is one of y's own type, in shift's place; residual lies as y does.
struct ChannelEpilogue {
  const void* scale = nullptr;
  const void* shift = nullptr;
  const void* residual = nullptr;
  bool relu = false;
  const void* bias = nullptr;  // of half types by kernels of ours alone

  bool empty() const noexcept { return scale == nullptr && shift == nullptr && residual == nullptr && !relu; }
};

/// y[:, c, :] = y[:, c, :] * scale[c] + shift[c] + residual[:, c, :], then relu if asked for; in float, of float64 in
/// that.
void channel_finish_cpu(const ChannelView& view, void* y, const ChannelEpilogue& then);
void channel_finish_gpu(const Queue& queue, const ChannelView& view, void* y, const ChannelEpilogue& then);

}  // namespace sluice::detail
