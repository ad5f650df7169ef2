#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

template void reduce_type_on_gpu<float>(Reduction, const KernelCall&, const ReduceSettings&);

}  // namespace sluice::detail
