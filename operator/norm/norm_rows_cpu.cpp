// Batch norm on the CPU in vectors: rows of floats, half types through blocks of them that stay in the nearest cache.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/simd/channel_rows.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_grain = 16 * 1024;  // elements worth a thread
constexpr std::int64_t k_block = 1024;       // of a half type

template <class T>
constexpr bool k_direct = std::is_same_v<T, float>;

// n neighbours as floats.
template <class T>
const float* floats(const T* x, std::int64_t n, float* block) {
  if constexpr (k_direct<T>) {
    return x;
  } else {
    simd::convert(x, block, n);
    return block;
  }
}

// Calls body(first, count) over [0, n), as many at a time as floats() takes.
template <class T, class Body>
void in_blocks(std::int64_t n, Body&& body) {
  const std::int64_t most = k_direct<T> ? n : k_block;
  for (std::int64_t i = 0; i < n; i += most)
    body(i, std::min(most, n - i));
}

// Calls write(to) for `to` with room for n floats, which become y's elements.
template <class T, class Write>
void written(T* y, std::int64_t n, float* block, Write&& write) {
  if constexpr (k_direct<T>) {
    write(y);
  } else {
    write(block);
    simd::convert(block, y, n);
  }
}

// One pass around the mean of a channel's first row: a sum of squares loses digits where the mean is far from what is
// subtracted, and the first row's own share of the variance bounds how far that is. Mean and variance of one channel.
struct Moments {
  double mean = 0, variance = 0;

  Moments(double shift, double count, double sum, double squares) {
    mean = shift + sum / count;
    variance = (squares - sum * (sum / count)) / count;
    if (variance < 0)
      variance = 0;
  }
};

double finite_or_zero(double x) {
  return std::isfinite(x) ? x : 0;
}

template <class T>
class Forward {
 public:
  Forward(const simd::ChannelRows& rows, const KernelCall& call)
      : rows_(rows),
        v_(channel_view(call.inputs[0], call.attributes.as<BatchNormAttributes>().axis)),
        workspace_(call.queue, sizeof(float) * static_cast<std::size_t>(2 * v_.channels)),
        channel_(call, workspace_.as<float>()),
        x_(call.inputs[0].as<T>()),
        y_(call.outputs[0].as<T>()) {}

  // Statistics of one channel.
  void sum_up(std::int64_t c) const {
    finish(c, channel_.batch_stats && count() > 0 ? moments_of(c) : Moments(0, 1, 0, 0));
  }

  void elements_of(std::int64_t row) const {
    float from[k_block], to[k_block];
    const std::int64_t c = row % v_.channels;
    in_blocks<T>(v_.inner, [&](std::int64_t i, std::int64_t n) {
      const std::int64_t at = row * v_.inner + i;
      const float* const x = floats(x_ + at, n, from);
      written(y_ + at, n, to, [&](float* y) {
        rows_.normalise(x, channel_.mean[c], channel_.scale[c], channel_.shift[c], n, y);
      });
    });
  }

  void columns(std::int64_t begin, std::int64_t end) const {
    const std::int64_t most = k_direct<T> ? end - begin : k_block;
    for (std::int64_t c = begin; c < end; c += most)
      some_columns(c, std::min(most, end - c));
  }

 private:
  double count() const { return static_cast<double>(v_.outer * v_.inner); }
  void finish(std::int64_t c, const Moments& m) const {
    channel_.finish(c, static_cast<float>(count()), static_cast<float>(m.mean), static_cast<float>(m.variance));
  }

  Moments moments_of(std::int64_t c) const {
    float block[k_block];
    const auto add = [&](std::int64_t o, double shift, double* sums) {
      const T* const row = x_ + (o * v_.channels + c) * v_.inner;
      in_blocks<T>(
          v_.inner, [&](std::int64_t i, std::int64_t n) { rows_.moments(floats(row + i, n, block), shift, n, sums); });
    };
    double first[2] = {}, sums[2] = {};
    add(0, 0, first);
    const double shift = finite_or_zero(first[0] / static_cast<double>(v_.inner));
    for (std::int64_t o = 0; o < v_.outer; ++o)
      add(o, shift, sums);
    return {shift, count(), sums[0], sums[1]};
  }

  void some_columns(std::int64_t c, std::int64_t n) const {
    float from[k_block], to[k_block];
    const auto row = [&](std::int64_t o) { return floats(x_ + o * v_.channels + c, n, from); };
    std::vector<double> shift(static_cast<std::size_t>(n)), sums(shift.size()), squares(shift.size());
    const bool batch = channel_.batch_stats && v_.outer > 0;
    if (batch)
      std::transform(row(0), row(0) + n, shift.begin(), [](float x) { return finite_or_zero(static_cast<double>(x)); });
    for (std::int64_t o = 0; batch && o < v_.outer; ++o)
      rows_.column_moments(row(o), shift.data(), n, sums.data(), squares.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      finish(c + i, Moments(shift[at], std::max(1.0, count()), sums[at], squares[at]));
    }
    for (std::int64_t o = 0; o < v_.outer; ++o) {
      const float* const x = row(o);
      written(y_ + o * v_.channels + c, n, to, [&](float* y) {
        rows_.column_normalise(x, channel_.mean + c, channel_.scale + c, channel_.shift + c, n, y);
      });
    }
  }

  const simd::ChannelRows& rows_;
  const ChannelView v_;
  const Workspace workspace_;
  const BatchNormChannel<float> channel_;
  const T* x_;
  T* y_;
};

template <class T>
class Backward {
 public:
  Backward(const simd::ChannelRows& rows, const KernelCall& call)
      : rows_(rows),
        v_(channel_view(call.inputs[0], call.attributes.as<BatchNormAttributes>().axis)),
        workspace_(call.queue, sizeof(float) * static_cast<std::size_t>(3 * v_.channels)),
        channel_(call, workspace_.as<float>()),
        dy_(call.inputs[0].as<T>()),
        x_(call.inputs[1].as<T>()),
        mean_(call.inputs[3].as<float>()),
        dx_(call.outputs[0].as<T>()) {}

  // The sums of one channel.
  void sum_up(std::int64_t c) const {
    float left[k_block], right[k_block];
    double sums[2] = {};
    for (std::int64_t o = 0; o < v_.outer; ++o) {
      in_blocks<T>(v_.inner, [&](std::int64_t i, std::int64_t n) {
        const std::int64_t at = (o * v_.channels + c) * v_.inner + i;
        rows_.products(floats(dy_ + at, n, left), floats(x_ + at, n, right), mean_[c], n, sums);
      });
    }
    finish(c, sums[0], sums[1]);
  }

  void elements_of(std::int64_t row) const {
    float left[k_block], right[k_block];
    const std::int64_t c = row % v_.channels;
    const float of[4] = {mean_[c], channel_.scale[c], channel_.mean_dy[c], channel_.slope[c]};
    in_blocks<T>(v_.inner, [&](std::int64_t i, std::int64_t n) {
      const std::int64_t at = row * v_.inner + i;
      const float *const dy = floats(dy_ + at, n, left), *const x = floats(x_ + at, n, right);
      written(dx_ + at, n, left, [&](float* dx) { rows_.gradient(dy, x, of, n, dx); });
    });
  }

  void columns(std::int64_t begin, std::int64_t end) const {
    const std::int64_t most = k_direct<T> ? end - begin : k_block;
    for (std::int64_t c = begin; c < end; c += most)
      some_columns(c, std::min(most, end - c));
  }

 private:
  void finish(std::int64_t c, double sum, double product) const {
    const auto count = static_cast<float>(v_.outer * v_.inner);
    product *= static_cast<double>(channel_.inv_std[c]);
    channel_.finish(c, count, static_cast<float>(sum), static_cast<float>(product));
  }

  void some_columns(std::int64_t c, std::int64_t n) const {
    float left[k_block], right[k_block];
    std::vector<double> sums(static_cast<std::size_t>(n)), products(sums.size());
    for (std::int64_t o = 0; o < v_.outer; ++o) {
      const std::int64_t at = o * v_.channels + c;
      rows_.column_products(
          floats(dy_ + at, n, left), floats(x_ + at, n, right), mean_ + c, n, sums.data(), products.data());
    }
    for (std::int64_t i = 0; i < n; ++i)
      finish(c + i, sums[static_cast<std::size_t>(i)], products[static_cast<std::size_t>(i)]);
    const float* const of[4] = {mean_ + c, channel_.scale + c, channel_.mean_dy + c, channel_.slope + c};
    for (std::int64_t o = 0; o < v_.outer; ++o) {
      const std::int64_t at = o * v_.channels + c;
      const float *const dy = floats(dy_ + at, n, left), *const x = floats(x_ + at, n, right);
      written(dx_ + at, n, left, [&](float* dx) { rows_.column_gradient(dy, x, of, n, dx); });
    }
  }

  const simd::ChannelRows& rows_;
  const ChannelView v_;
  const Workspace workspace_;
  const BatchNormGradientChannel<float> channel_;
  const T *dy_, *x_;
  const float* mean_;
  T* dx_;
};

// One channel after the other, each one's elements while they are near, unless too few channels would keep all busy.
template <class P>
void run_planes(const ChannelView& v, const P& pass) {
  constexpr std::int64_t k_enough = 16;
  const bool near = v.channels >= k_enough;
  const auto worth = [](std::int64_t elements) {
    return std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, elements));
  };
  parallel_for(v.channels, worth(v.outer * v.inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      pass.sum_up(c);
      for (std::int64_t o = 0; near && o < v.outer; ++o)
        pass.elements_of(o * v.channels + c);
    }
  });
  if (near)
    return;
  parallel_for(v.outer * v.channels, worth(v.inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      pass.elements_of(row);
  });
}

template <template <class> class Pass>
bool in_vectors(const KernelCall& call) {
  const simd::ChannelRows* const rows = simd::channel_rows();
  const TensorView& x = call.inputs[0];
  if (rows == nullptr || x.dtype == DType::float64)
    return false;
  by_floating(x.dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const ChannelView v = channel_view(x, call.attributes.as<BatchNormAttributes>().axis);
      const Pass<T> pass(*rows, call);
      if (v.inner != 1)
        return run_planes(v, pass);
      // Neighbouring channels share cache lines.
      parallel_for(
          v.channels,
          std::max<std::int64_t>(16, k_grain / std::max<std::int64_t>(1, v.outer)),
          [&](auto begin, auto end) { pass.columns(begin, end); });
    }
  });
  return true;
}

}  // namespace

bool batch_norm_in_vectors(const KernelCall& call) {
  return in_vectors<Forward>(call);
}

bool batch_norm_backward_in_vectors(const KernelCall& call) {
  return in_vectors<Backward>(call);
}

}  // namespace sluice::detail
