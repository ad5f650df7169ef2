#include <algorithm>
#include <atomic>
#include <vector>

#include <sluice/engine/parallel.h>
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

}  // namespace

// Whole numbers add up to the same in any order.
void bincount_cpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  auto* const counts = y.as<std::int64_t>();
  const std::int64_t bins = y.size;
  std::fill_n(counts, bins, std::int64_t{0});
  if (bins == 0)
    return;
  parallel_for(x.size, std::max<std::int64_t>(1 << 16, bins), [&](std::int64_t begin, std::int64_t end) {
    // Neighbours are counted apart, so that equal ones need not wait for each other; what is no bin comes last.
    std::vector<std::int64_t> own(static_cast<std::size_t>(2 * (bins + 1)));
    std::int64_t *const even = own.data(), *const odd = even + bins + 1;
    by_number(x, [&](const auto& number) {
      const auto bin = [&](std::int64_t i) {
        const std::int64_t of = number(i);
        return static_cast<std::uint64_t>(of) < static_cast<std::uint64_t>(bins) ? of : bins;
      };
      std::int64_t i = begin;
      for (; i + 1 < end; i += 2) {
        ++even[bin(i)];
        ++odd[bin(i + 1)];
      }
      if (i < end)
        ++even[bin(i)];
    });
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      if (const std::int64_t found = even[bin] + odd[bin]; found != 0)
        std::atomic_ref(counts[bin]).fetch_add(found, std::memory_order_relaxed);
    }
  });
}

}  // namespace sluice::detail
