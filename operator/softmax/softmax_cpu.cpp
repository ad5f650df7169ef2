#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/softmax/row_cpu.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_grain = 8192;
// Neighbouring columns worked on together when the axis is not the last one.
constexpr std::int64_t k_tile = 64;

// One row of neighbours; `scratch` holds n numbers.
template <bool Log, class T, class C>
void softmax_row(const T* x, T* y, std::int64_t n, C* __restrict scratch) {
  const C largest = largest_of<C>(x, n);
  for (std::int64_t i = 0; i < n; ++i)
    scratch[i] = vector_exp(static_cast<C>(x[i]) - largest);
  const double sum = sum_of(scratch, n);
  const C last = static_cast<C>(Log ? std::log(sum) : 1 / sum);
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(Log ? (static_cast<C>(x[i]) - largest) - last : scratch[i] * last);
}

// `width` columns, `inner` apart from row to row.
template <bool Log, class T, class C>
void softmax_columns(const T* x, T* y, std::int64_t n, std::int64_t inner, int width) {
  C largest[k_tile];
  double sum[k_tile] = {};
  std::fill_n(largest, width, -std::numeric_limits<C>::infinity());
  for (std::int64_t i = 0; i < n; ++i) {
    for (int j = 0; j < width; ++j)
      largest[j] = std::max(largest[j], static_cast<C>(x[i * inner + j]));
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (int j = 0; j < width; ++j)
      sum[j] += vector_exp(static_cast<C>(x[i * inner + j]) - largest[j]);
  }
  C last[k_tile];
  for (int j = 0; j < width; ++j)
    last[j] = static_cast<C>(Log ? std::log(sum[j]) : 1 / sum[j]);
  for (std::int64_t i = 0; i < n; ++i) {
    for (int j = 0; j < width; ++j) {
      const C shifted = static_cast<C>(x[i * inner + j]) - largest[j];
      y[i * inner + j] = static_cast<T>(Log ? shifted - last[j] : vector_exp(shifted) * last[j]);
    }
  }
}

template <bool Log, class T>
void forward(const KernelCall& call) {
  using C = Compute<T>;
  const AxisLayout at = softmax_layout(call);
  if (call.inputs[0].size == 0)
    return;
  const T* x = call.inputs[0].as<const T>();
  T* y = call.outputs[0].as<T>();
  if (at.inner == 1) {
    parallel_for(at.outer, std::max<std::int64_t>(1, k_grain / at.n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> scratch(static_cast<std::size_t>(at.n));
      for (std::int64_t row = begin; row < end; ++row)
        softmax_row<Log>(x + row * at.n, y + row * at.n, at.n, scratch.data());
    });
    return;
  }
  const std::int64_t tiles = (at.inner + k_tile - 1) / k_tile;
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain / (at.n * std::min(at.inner, k_tile)));
  parallel_for(at.outer * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % tiles * k_tile;
      const std::int64_t offset = unit / tiles * at.n * at.inner + first;
      const int width = static_cast<int>(std::min(k_tile, at.inner - first));
      softmax_columns<Log, T, C>(x + offset, y + offset, at.n, at.inner, width);
    }
  });
}

// One row or column: dx = y * (dy - sum(y * dy)), or dy - exp(y) * sum(dy).
template <bool Log, class T>
void backward_row(const T* y, const T* dy, T* dx, std::int64_t n, std::int64_t step) {
  using C = Compute<T>;
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    sum += static_cast<C>(dy[i * step]) * (Log ? C{1} : static_cast<C>(y[i * step]));
  const C total = static_cast<C>(sum);
  for (std::int64_t i = 0; i < n; ++i) {
    const C result = static_cast<C>(y[i * step]), grad = static_cast<C>(dy[i * step]);
    dx[i * step] = static_cast<T>(Log ? grad - vector_exp(result) * total : result * (grad - total));
  }
}

template <bool Log, class T>
void backward(const KernelCall& call) {
  const AxisLayout at = softmax_layout(call);
  if (call.inputs[0].size == 0)
    return;
  const T* y = call.inputs[0].as<const T>();
  const T* dy = call.inputs[1].as<const T>();
  T* dx = call.outputs[0].as<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain / at.n);
  parallel_for(at.outer * at.inner, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t offset = row / at.inner * at.n * at.inner + row % at.inner;
      backward_row<Log>(y + offset, dy + offset, dx + offset, at.n, at.inner);
    }
  });
}

}  // namespace

void softmax_cpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { forward<false, T>(call); });
}

void log_softmax_cpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { forward<true, T>(call); });
}

void softmax_backward_cpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { backward<false, T>(call); });
}

void log_softmax_backward_cpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { backward<true, T>(call); });
}

}  // namespace sluice::detail
