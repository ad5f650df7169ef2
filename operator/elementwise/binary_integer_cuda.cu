#include <sluice/operator/elementwise/binary_cuda.cuh>

namespace sluice::detail {

template PointwiseLaunch<3> binary_launch_for<bool>(Binary);
template PointwiseLaunch<3> binary_launch_for<std::uint8_t>(Binary);
template PointwiseLaunch<3> binary_launch_for<std::int8_t>(Binary);
template PointwiseLaunch<3> binary_launch_for<std::int32_t>(Binary);
template PointwiseLaunch<3> binary_launch_for<std::int64_t>(Binary);

}  // namespace sluice::detail
