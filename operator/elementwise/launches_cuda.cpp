// Picks the launch of a row and an element type. The launches are compiled in the device files of this folder, a few
// types each.
#include <sluice/operator/elementwise/kernels.h>

namespace sluice::detail {

template <class T>
PointwiseLaunch<2> unary_launch_for(Unary row);
template <class T>
PointwiseLaunch<4> unary_gradient_launch_for(Unary row);
template <class T>
PointwiseLaunch<3> binary_launch_for(Binary row);
template <class T, int operand>
PointwiseLaunch<5> binary_gradient_launch_for(Binary row);

PointwiseLaunch<2> unary_launch(Unary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() { return unary_launch_for<T>(row); });
}

PointwiseLaunch<3> binary_launch(Binary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() { return binary_launch_for<T>(row); });
}

PointwiseLaunch<4> unary_gradient_launch(Unary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<4> {
    if constexpr (std::is_floating_point_v<math::Compute<T>>) {
      return unary_gradient_launch_for<T>(row);
    } else {
      return nullptr;
    }
  });
}

PointwiseLaunch<5> binary_gradient_launch(Binary row, int operand, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<5> {
    if constexpr (std::is_floating_point_v<math::Compute<T>>) {
      return operand == 0 ? binary_gradient_launch_for<T, 0>(row) : binary_gradient_launch_for<T, 1>(row);
    } else {
      return nullptr;
    }
  });
}

}  // namespace sluice::detail
