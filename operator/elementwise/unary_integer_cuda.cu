#include <sluice/operator/elementwise/unary_cuda.cuh>

namespace sluice::detail {

SLUICE_UNARY_LAUNCHES(bool)
SLUICE_UNARY_LAUNCHES(std::uint8_t)
SLUICE_UNARY_LAUNCHES(std::int8_t)
SLUICE_UNARY_LAUNCHES(std::int32_t)
SLUICE_UNARY_LAUNCHES(std::int64_t)

}  // namespace sluice::detail
