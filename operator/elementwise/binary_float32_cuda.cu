#include <sluice/operator/elementwise/binary_cuda.cuh>

namespace sluice::detail {

template PointwiseLaunch<3> binary_launch_for<float>(Binary);
template PointwiseLaunch<5> binary_backward_launch_for<float, 0>(Binary);
template PointwiseLaunch<5> binary_backward_launch_for<float, 1>(Binary);

}  // namespace sluice::detail
