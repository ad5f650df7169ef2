#include <sluice/operator/elementwise/unary_cuda.cuh>

namespace sluice::detail {

template PointwiseLaunch<2> unary_launch_for<Half>(Unary);
template PointwiseLaunch<4> unary_gradient_launch_for<Half>(Unary);

}  // namespace sluice::detail
