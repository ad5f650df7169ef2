#include <sluice/operator/reduce/reduce_cpu.h>

namespace sluice::detail {

template void reduce_type_on_cpu<float>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_cpu<double>(Reduction, const KernelCall&, const ReduceSettings&);

}  // namespace sluice::detail
