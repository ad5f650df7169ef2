#include <sluice/operator/elementwise/unary_cuda.cuh>

namespace sluice::detail {

template PointwiseLaunch<2> unary_launch_for<double>(Unary);
template PointwiseLaunch<4> unary_gradient_launch_for<double>(Unary);

}  // namespace sluice::detail
