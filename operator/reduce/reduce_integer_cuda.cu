#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

template void reduce_type_on_gpu<std::int8_t>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_gpu<std::uint8_t>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_gpu<std::int32_t>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_gpu<std::int64_t>(Reduction, const KernelCall&, const ReduceSettings&);

}  // namespace sluice::detail
