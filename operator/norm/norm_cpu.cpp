#include <algorithm>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_grain = 16 * 1024;  // elements worth a thread

// Adds term(offset, channel) over all elements of channels [begin, end), in memory order, into sums.
template <class Term>
void add_up(const ChannelView& v, std::int64_t begin, std::int64_t end, std::vector<double>& sums, Term&& term) {
  sums.assign(end - begin, 0.0);
  for (std::int64_t o = 0; o < v.outer; ++o) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t first = (o * v.channels + c) * v.inner;
      double lanes[4] = {};
      std::int64_t i = 0;
      for (; i + 4 <= v.inner; i += 4) {
        for (int lane = 0; lane < 4; ++lane)
          lanes[lane] += term(first + i + lane, c);
      }
      for (; i < v.inner; ++i)
        lanes[0] += term(first + i, c);
      sums[c - begin] += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    }
  }
}

template <class Body>
void for_each_channel_range(const ChannelView& v, Body&& body) {
  const std::int64_t per_channel = std::max<std::int64_t>(1, v.outer * v.inner);
  parallel_for(v.channels, std::max<std::int64_t>(1, k_grain / per_channel), body);
}

// Calls body(offset, channel) for every element.
template <class Body>
void for_each_element(const ChannelView& v, Body&& body) {
  const std::int64_t rows = v.outer * v.channels;
  parallel_for(
      rows, std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, v.inner)), [&](auto begin, auto end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t channel = row % v.channels;
          for (std::int64_t i = 0; i < v.inner; ++i)
            body(row * v.inner + i, channel);
        }
      });
}

// Two passes: the mean, then the squares around it; in double.
template <class T>
void batch_statistics(const ChannelView& v, const T* x, const BatchNormChannel<Compute<T>>& channel) {
  using Acc = Compute<T>;
  const double count = static_cast<double>(v.outer * v.inner);
  for_each_channel_range(v, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> means, squares;
    if (channel.batch_stats) {
      add_up(v, begin, end, means, [&](std::int64_t i, std::int64_t) { return static_cast<double>(x[i]); });
      for (double& mean : means)
        mean = count > 0 ? mean / count : 0;
      add_up(v, begin, end, squares, [&](std::int64_t i, std::int64_t c) {
        const double distance = static_cast<double>(x[i]) - means[c - begin];
        return distance * distance;
      });
    }
    for (std::int64_t c = begin; c < end; ++c) {
      const double mean = channel.batch_stats ? means[c - begin] : 0;
      const double var = channel.batch_stats && count > 0 ? squares[c - begin] / count : 0;
      channel.finish(c, static_cast<Acc>(count), static_cast<Acc>(mean), static_cast<Acc>(var));
    }
  });
}

template <class T>
void forward(const KernelCall& call) {
  using Acc = Compute<T>;
  const ChannelView v = channel_view(call.inputs[0], call.attributes.as<BatchNormAttributes>().axis);
  const Workspace workspace(call.queue, sizeof(Acc) * static_cast<std::size_t>(2 * v.channels));
  const BatchNormChannel<Acc> channel(call, workspace.as<Acc>());
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  batch_statistics(v, x, channel);
  for_each_element(v, [=](std::int64_t i, std::int64_t c) {
    y[i] = T((static_cast<Acc>(x[i]) - channel.mean[c]) * channel.scale[c] + channel.shift[c]);
  });
}

template <class T>
void backward(const KernelCall& call) {
  using Acc = Compute<T>;
  const ChannelView v = channel_view(call.inputs[0], call.attributes.as<BatchNormAttributes>().axis);
  const Workspace workspace(call.queue, sizeof(Acc) * static_cast<std::size_t>(3 * v.channels));
  const BatchNormGradientChannel<Acc> channel(call, workspace.as<Acc>());
  const T* dy = call.inputs[0].as<T>();
  const T* x = call.inputs[1].as<T>();
  const Acc* mean = call.inputs[3].as<Acc>();
  T* dx = call.outputs[0].as<T>();
  const auto count = static_cast<Acc>(v.outer * v.inner);
  for_each_channel_range(v, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums, products;
    add_up(v, begin, end, sums, [&](std::int64_t i, std::int64_t) { return static_cast<double>(dy[i]); });
    add_up(v, begin, end, products, [&](std::int64_t i, std::int64_t c) {
      return static_cast<double>(dy[i]) * static_cast<double>(static_cast<Acc>(x[i]) - mean[c]);
    });
    for (std::int64_t c = begin; c < end; ++c) {
      const double product = products[c - begin] * static_cast<double>(channel.inv_std[c]);
      channel.finish(c, count, static_cast<Acc>(sums[c - begin]), static_cast<Acc>(product));
    }
  });
  for_each_element(v, [=](std::int64_t i, std::int64_t c) {
    const Acc centred = static_cast<Acc>(x[i]) - mean[c];
    dx[i] = T(channel.scale[c] * (static_cast<Acc>(dy[i]) - channel.mean_dy[c] - centred * channel.slope[c]));
  });
}

}  // namespace

void batch_norm_cpu(const KernelCall& call) {
  if (batch_norm_in_vectors(call))
    return;
  by_floating(call.inputs[0].dtype, [&]<class T>() { forward<T>(call); });
}

void batch_norm_backward_cpu(const KernelCall& call) {
  if (batch_norm_backward_in_vectors(call))
    return;
  by_floating(call.inputs[0].dtype, [&]<class T>() { backward<T>(call); });
}

}  // namespace sluice::detail
