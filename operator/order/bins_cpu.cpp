#include <algorithm>
#include <atomic>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/order/bins.h>

namespace sluice::detail {

// Whole numbers add up to the same in any order.
void bincount_cpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  auto* const counts = y.as<std::int64_t>();
  std::fill_n(counts, y.size, std::int64_t{0});
  if (y.size == 0)
    return;
  parallel_for(x.size, std::max<std::int64_t>(1 << 16, y.size), [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> own(static_cast<std::size_t>(y.size));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t bin = load_index(x.data, x.dtype, i);
      if (bin >= 0 && bin < y.size)
        ++own[static_cast<std::size_t>(bin)];
    }
    for (std::int64_t bin = 0; bin < y.size; ++bin) {
      if (const std::int64_t found = own[static_cast<std::size_t>(bin)]; found != 0)
        std::atomic_ref(counts[bin]).fetch_add(found, std::memory_order_relaxed);
    }
  });
}

}  // namespace sluice::detail
