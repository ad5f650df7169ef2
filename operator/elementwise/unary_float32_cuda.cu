#include <sluice/operator/elementwise/unary_cuda.cuh>

namespace sluice::detail {

SLUICE_UNARY_LAUNCHES(float)
SLUICE_UNARY_GRADIENT_LAUNCHES(float)

}  // namespace sluice::detail
