#include <sluice/operator/reduce/reduce_cpu.h>

namespace sluice::detail {

template void reduce_type_on_cpu<Half>(Reduction, const KernelCall&, const ReduceSettings&);
template void reduce_type_on_cpu<BFloat16>(Reduction, const KernelCall&, const ReduceSettings&);

}  // namespace sluice::detail
