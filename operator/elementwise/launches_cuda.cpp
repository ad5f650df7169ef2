// Picks the launch of a row and an element type. The launches are compiled in the device files of this folder, a few
// types each.
#include <sluice/operator/elementwise/kernels.h>

namespace sluice::detail {

template <class T, int P>
PointwiseLaunch<2 + P> unary_launch_for(Unary row);
template <class T, int P>
PointwiseLaunch<4 + P> unary_gradient_launch_for(Unary row);
template <class T>
PointwiseLaunch<3> binary_launch_for(Binary row);
template <class T, int operand>
PointwiseLaunch<5> binary_gradient_launch_for(Binary row);

template <int P>
PointwiseLaunch<2 + P> unary_launch(Unary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() { return unary_launch_for<T, P>(row); });
}
template PointwiseLaunch<2> unary_launch<0>(Unary, DType);
template PointwiseLaunch<3> unary_launch<1>(Unary, DType);
template PointwiseLaunch<4> unary_launch<2>(Unary, DType);

PointwiseLaunch<3> binary_launch(Binary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() { return binary_launch_for<T>(row); });
}

template <int P>
PointwiseLaunch<4 + P> unary_gradient_launch(Unary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<4 + P> {
    if constexpr (std::is_floating_point_v<math::Compute<T>>) {
      return unary_gradient_launch_for<T, P>(row);
    } else {
      return nullptr;
    }
  });
}
template PointwiseLaunch<4> unary_gradient_launch<0>(Unary, DType);
template PointwiseLaunch<5> unary_gradient_launch<1>(Unary, DType);
template PointwiseLaunch<6> unary_gradient_launch<2>(Unary, DType);

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
