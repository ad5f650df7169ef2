#include <sluice/operator/elementwise/binary_cuda.cuh>

namespace sluice::detail {

template PointwiseLaunch<3> binary_launch_for<double>(Binary);
template PointwiseLaunch<5> binary_backward_launch_for<double, 0>(Binary);
template PointwiseLaunch<5> binary_backward_launch_for<double, 1>(Binary);

}  // namespace sluice::detail
