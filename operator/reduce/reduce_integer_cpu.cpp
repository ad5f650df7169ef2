#include <sluice/operator/reduce/reduce_cpu.h>

namespace sluice::detail {

template void reduce_type_on_cpu<bool>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_cpu<std::int8_t>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_cpu<std::uint8_t>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_cpu<std::int32_t>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_cpu<std::int64_t>(Reduction, const KernelCall&, const ReduceSettings&);

}  // namespace sluice::detail
