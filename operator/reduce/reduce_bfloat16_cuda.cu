#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

template void reduce_type_on_gpu<BFloat16>(Reduction, const KernelCall&, const ReduceSettings&);

}  // namespace sluice::detail
