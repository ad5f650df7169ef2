#include <sluice/operator/reduce/reduce_cpu.h>

namespace sluice::detail {

void take_every(const float* from, std::int64_t step, std::int64_t n, float* to) noexcept {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = from[i * step];
}

template void reduce_type_on_cpu<float>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_cpu<double>(Reduction, const KernelCall&, const ReduceSettings&);

}  // namespace sluice::detail
