#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/pointwise_cuda.cuh>

namespace sluice::detail {

PointwiseLaunch<4> where_launch(DType dtype) {
  return by_dtype(
      dtype, [&]<class T>() -> PointwiseLaunch<4> { return &PointwiseKernel<math::Where, T, bool, T, T>::launch; });
}

}  // namespace sluice::detail
