#include <sluice/operator/elementwise/unary_cuda.cuh>

namespace sluice::detail {

template PointwiseLaunch<2> unary_launch_for<bool>(Unary);
template PointwiseLaunch<2> unary_launch_for<std::uint8_t>(Unary);
template PointwiseLaunch<2> unary_launch_for<std::int8_t>(Unary);
template PointwiseLaunch<2> unary_launch_for<std::int32_t>(Unary);
template PointwiseLaunch<2> unary_launch_for<std::int64_t>(Unary);

}  // namespace sluice::detail
