#include <sluice/operator/elementwise/unary_cuda.cuh>

namespace sluice::detail {

SLUICE_UNARY_LAUNCHES(double)
SLUICE_UNARY_GRADIENT_LAUNCHES(double)

}  // namespace sluice::detail
