#include <sluice/operator/elementwise/special_cuda.cuh>

namespace sluice::detail {

SLUICE_SPECIAL_LAUNCHES(float)

}  // namespace sluice::detail
