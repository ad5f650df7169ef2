#include <sluice/operator/elementwise/unary_cuda.cuh>

namespace sluice::detail {

SLUICE_UNARY_LAUNCHES(BFloat16)
SLUICE_UNARY_GRADIENT_LAUNCHES(BFloat16)

}  // namespace sluice::detail
