#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/pointwise_cuda.cuh>

namespace sluice::detail {

PointwiseLaunch<4> where_launch(DType dtype) {
  return by_dtype(
      dtype, [&]<class T>() -> PointwiseLaunch<4> { return &PointwiseKernel<math::Where, T, bool, T, T>::launch; });
}

PointwiseLaunch<4> clip_launch(DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<4> {
    if constexpr (!k_takes<RowKind::arithmetic, T>) {
      return nullptr;
    } else {
      return &PointwiseKernel<math::Clip, T, T, T, T>::launch;
    }
  });
}

PointwiseLaunch<5> clip_gradient_launch(DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<5> {
    if constexpr (!k_has_gradient<RowKind::arithmetic, T>) {
      return nullptr;
    } else {
      return &PointwiseKernel<math::ClipGradient, T, T, T, T, T>::launch;
    }
  });
}

}  // namespace sluice::detail
