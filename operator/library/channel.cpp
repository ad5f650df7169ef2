#include <algorithm>
#include <type_traits>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel.h>

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

template <class T>
void add_channels(const ChannelView& v, T* y, const T* bias, bool relu) {
  using Acc = Compute<T>;
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, v.inner));
  parallel_for(v.outer * v.channels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const Acc add = bias == nullptr ? Acc{} : static_cast<Acc>(bias[plane % v.channels]);
      T* at = y + plane * v.inner;
      for (std::int64_t i = 0; i < v.inner; ++i) {
        const Acc value = static_cast<Acc>(at[i]) + add;
        at[i] = T(relu && value <= Acc{} ? Acc{} : value);
      }
    }
  });
}

}  // namespace

void channel_sum_cpu(const ChannelView& view, const void* x, void* sums) {
  by_floating(view.dtype, [&]<class T>() { sum_channels(view, static_cast<const T*>(x), static_cast<T*>(sums)); });
}

void channel_add_cpu(const ChannelView& view, void* y, const void* bias, bool relu) {
  by_floating(
      view.dtype, [&]<class T>() { add_channels(view, static_cast<T*>(y), static_cast<const T*>(bias), relu); });
}

}  // namespace sluice::detail
