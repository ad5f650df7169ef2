#include <sluice/operator/elementwise/unary_cuda.cuh>

namespace sluice::detail {

SLUICE_UNARY_LAUNCHES(Half)
SLUICE_UNARY_GRADIENT_LAUNCHES(Half)

}  // namespace sluice::detail
