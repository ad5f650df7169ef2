#include <algorithm>
#include <atomic>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/order/bins.h>

namespace sluice::detail {

namespace {

/// Calls f(number(i)) with what reads number i of x; of the types that places mostly have without asking each time.
template <class F>
void by_number(const TensorView& x, const F& f) {
  if (x.dtype == DType::int64)
    f([at = x.as<const std::int64_t>()](std::int64_t i) { return at[i]; });
  else if (x.dtype == DType::int32)
    f([at = x.as<const std::int32_t>()](std::int64_t i) { return std::int64_t{at[i]}; });
  else
    f([&x](std::int64_t i) { return load_index(x.data, x.dtype, i); });
}

/// How often bin(i) is each of [0, bins), i below n. What is no bin is `bins`.
template <class Bin>
void count_bins(std::int64_t n, std::int64_t bins, std::int64_t* counts, const Bin& bin) {
  std::fill_n(counts, bins, std::int64_t{0});
  if (bins == 0)
    return;
  // Whole numbers add up to the same in any order.
  parallel_for(n, std::max<std::int64_t>(1 << 16, bins), [&](std::int64_t begin, std::int64_t end) {
    // Neighbours are counted apart, so that equal ones need not wait for each other; what is no bin comes last.
    std::vector<std::int64_t> own(static_cast<std::size_t>(2 * (bins + 1)));
    std::int64_t *const even = own.data(), *const odd = even + bins + 1;
    const Bin of = bin;
    std::int64_t i = begin;
    for (; i + 1 < end; i += 2) {
      ++even[of(i)];
      ++odd[of(i + 1)];
    }
    if (i < end)
      ++even[of(i)];
    for (std::int64_t at = 0; at < bins; ++at) {
      if (const std::int64_t found = even[at] + odd[at]; found != 0)
        std::atomic_ref(counts[at]).fetch_add(found, std::memory_order_relaxed);
    }
  });
}

}  // namespace

void bincount_cpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const std::int64_t bins = y.size;
  by_number(x, [&](const auto& number) {
    count_bins(x.size, bins, y.as<std::int64_t>(), [number, bins](std::int64_t i) {
      const std::int64_t of = number(i);
      return static_cast<std::uint64_t>(of) < static_cast<std::uint64_t>(bins) ? of : bins;
    });
  });
}

void histogram_cpu(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const EqualBins equal(call.attributes.as<HistogramAttributes>());
  auto* const edges = call.outputs[1].as<double>();
  for (std::int64_t i = 0; i < equal.bins; ++i)
    edges[i] = equal.edge(i);
  edges[equal.bins] = equal.high;
  by_floating(x.dtype, [&]<class T>() {
    count_bins(
        x.size, equal.bins, call.outputs[0].as<std::int64_t>(), [from = x.as<const T>(), equal, edges](std::int64_t i) {
          const auto at = static_cast<double>(static_cast<Compute<T>>(from[i]));
          const std::int64_t guess = equal.guess(at);
          if (guess < 0)
            return equal.bins;
          const bool right = edges[guess] <= at && (guess + 1 == equal.bins || at < edges[guess + 1]);
          return right ? guess : equal.search(at);
        });
  });
}

}  // namespace sluice::detail
