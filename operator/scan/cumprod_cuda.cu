#include <sluice/operator/scan/total_cuda.cuh>

namespace sluice::detail {

void cumprod_gpu(const KernelCall& call) {
  totals_on_gpu<true>(call);
}

}  // namespace sluice::detail
