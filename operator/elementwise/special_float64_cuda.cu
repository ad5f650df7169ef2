#include <sluice/operator/elementwise/special_cuda.cuh>

namespace sluice::detail {

SLUICE_SPECIAL_LAUNCHES(double)

}  // namespace sluice::detail
