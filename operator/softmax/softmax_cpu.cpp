#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/simd/softmax_rows.h>
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

// Results that no cache keeps go past it. Rows that are not whole lines share some, which costs short ones more.
template <class T>
bool streams(std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t k_long = 256, k_large = std::int64_t{4} << 20;
  return std::is_same_v<T, float> && n >= k_long && rows * n * static_cast<std::int64_t>(sizeof(T)) >= k_large;
}

// A row of neighbours in vectors; `row` holds n numbers, y itself where that can. x may be y.
template <bool Log>
void softmax_row(
    const simd::SoftmaxRows& simd,
    const float* x,
    float* y,
    std::int64_t n,
    float* row,
    bool stream,
    simd::Ahead next) {
  const float largest = simd.largest(x, n);
  const double sum = simd.exp_sum(x, largest, n, Log ? nullptr : row, next);
  if (Log) {
    simd.shift(x, largest, static_cast<float>(std::log(sum)), n, y, stream);
  } else {
    simd.scale(row, static_cast<float>(1 / sum), n, y, stream);
  }
}

// Rows [begin, end) of neighbours.
template <bool Log>
void softmax_rows(
    const simd::SoftmaxRows& vectors,
    const float* x,
    float* y,
    std::int64_t begin,
    std::int64_t end,
    std::int64_t n,
    bool stream) {
  const RowBuffer scratch(!Log && stream ? n : 0);
  for (std::int64_t row = begin; row < end; ++row) {
    float* const to = y + row * n;
    float* const powers = stream ? scratch.get() : to;
    softmax_row<Log>(vectors, x + row * n, to, n, powers, stream, row_ahead(x, row + 1, end, n));
  }
  if (stream)
    vectors.finish();
}

// Half types: several short rows are converted at once.
template <bool Log, class T>
void softmax_rows(
    const simd::SoftmaxRows& vectors, const T* x, T* y, std::int64_t begin, std::int64_t end, std::int64_t n, bool) {
  const std::int64_t block = rows_converted(end - begin, n);
  const RowBuffer from(block * n), to(block * n);  // not over what the next row loads, which would wait for the stores
  for (std::int64_t row = begin; row < end; row += block) {
    const std::int64_t rows = std::min(block, end - row);
    simd::convert(x + row * n, from.get(), rows * n);
    const simd::Ahead next = block == 1 ? row_ahead(x, row + 1, end, n) : simd::Ahead{};
    for (std::int64_t i = 0; i < rows * n; i += n)
      softmax_row<Log>(vectors, from.get() + i, to.get() + i, n, to.get() + i, false, next);
    simd::convert(to.get(), y + row * n, rows * n);
  }
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
    const simd::SoftmaxRows* const vectors = simd::softmax_rows();
    const bool stream = vectors != nullptr && streams<T>(at.outer, at.n);
    parallel_for(at.outer, std::max<std::int64_t>(1, k_grain / at.n), [&](std::int64_t begin, std::int64_t end) {
      if constexpr (std::is_same_v<C, float>) {
        if (vectors != nullptr)
          return softmax_rows<Log>(*vectors, x, y, begin, end, at.n, stream);
      }
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

// Rows of neighbours in vectors, those of half types as floats.
template <bool Log, class T>
void backward_rows(
    const simd::SoftmaxRows& vectors, const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t n, bool stream) {
  const auto gradient = Log ? vectors.log_gradient : vectors.gradient;
  const auto row = [&](const float* result, const float* grad, float* to) {
    const double total = vectors.sum(grad, Log ? nullptr : result, n);
    gradient(result, grad, static_cast<float>(total), n, to, stream);
  };
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t i = 0; i < rows * n; i += n)
      row(y + i, dy + i, dx + i);
  } else {
    const std::int64_t block = rows_converted(rows, n) * n;
    const RowBuffer results(block), grads(block), answers(block);  // each row's own, lest loads meet fresh stores
    for (std::int64_t from = 0; from < rows * n; from += block) {
      const std::int64_t count = std::min(block, rows * n - from);
      simd::convert(y + from, results.get(), count);
      simd::convert(dy + from, grads.get(), count);
      for (std::int64_t i = 0; i < count; i += n)
        row(results.get() + i, grads.get() + i, answers.get() + i);
      simd::convert(answers.get(), dx + from, count);
    }
  }
  if (stream)
    vectors.finish();
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
  const bool worth_it = std::is_same_v<T, float> || at.n >= k_worth_converting;
  const simd::SoftmaxRows* const vectors = at.inner == 1 && worth_it ? simd::softmax_rows() : nullptr;
  const bool stream = vectors != nullptr && streams<T>(at.outer, at.n);
  parallel_for(at.outer * at.inner, grain, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<Compute<T>, float>) {
      if (vectors != nullptr) {
        const std::int64_t first = begin * at.n;
        return backward_rows<Log>(*vectors, y + first, dy + first, dx + first, end - begin, at.n, stream);
      }
    }
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
