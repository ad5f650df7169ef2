// Picks the launch of a row and an element type. The launches are compiled in the device files of this folder, a few
// types each.
#include <sluice/operator/elementwise/kernels.h>

namespace sluice::detail {

template <class T, int P>
PointwiseLaunch<2 + P> unary_launch_for(Unary row);
template <class T, int P>
PointwiseLaunch<4 + P> unary_backward_launch_for(Unary row);
template <class T>
PointwiseLaunch<3> binary_launch_for(Binary row);
template <class T, int operand>
PointwiseLaunch<5> binary_backward_launch_for(Binary row);

// Of the special rows, by what is computed with; null for others.
template <class C, int P>
PointwiseLaunch<2 + P> special_launch_for(Unary row);
template <class C, int P>
PointwiseLaunch<4 + P> special_backward_launch_for(Unary row);
template <class C>
PointwiseLaunch<3> special_launch_for(Binary row);
template <class C, int operand>
PointwiseLaunch<5> special_backward_launch_for(Binary row);

template <int P>
PointwiseLaunch<2 + P> unary_launch(Unary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<2 + P> {
    using C = math::Compute<T>;
    if constexpr (std::is_floating_point_v<C>) {
      if (const auto special = special_launch_for<C, P>(row))
        return special;
    }
    return unary_launch_for<T, P>(row);
  });
}
template PointwiseLaunch<2> unary_launch<0>(Unary, DType);
template PointwiseLaunch<3> unary_launch<1>(Unary, DType);
template PointwiseLaunch<4> unary_launch<2>(Unary, DType);

PointwiseLaunch<3> binary_launch(Binary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<3> {
    using C = math::Compute<T>;
    if constexpr (std::is_floating_point_v<C>) {
      if (const auto special = special_launch_for<C>(row))
        return special;
    }
    return binary_launch_for<T>(row);
  });
}

template <int P>
PointwiseLaunch<4 + P> unary_backward_launch(Unary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<4 + P> {
    using C = math::Compute<T>;
    if constexpr (std::is_floating_point_v<C>) {
      const auto special = special_backward_launch_for<C, P>(row);
      return special != nullptr ? special : unary_backward_launch_for<T, P>(row);
    } else {
      return nullptr;
    }
  });
}
template PointwiseLaunch<4> unary_backward_launch<0>(Unary, DType);
template PointwiseLaunch<5> unary_backward_launch<1>(Unary, DType);
template PointwiseLaunch<6> unary_backward_launch<2>(Unary, DType);

PointwiseLaunch<5> binary_backward_launch(Binary row, int operand, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLaunch<5> {
    using C = math::Compute<T>;
    if constexpr (std::is_floating_point_v<C>) {
      if (const auto special =
              operand == 0 ? special_backward_launch_for<C, 0>(row) : special_backward_launch_for<C, 1>(row))
        return special;
      return operand == 0 ? binary_backward_launch_for<T, 0>(row) : binary_backward_launch_for<T, 1>(row);
    } else {
      return nullptr;
    }
  });
}

}  // namespace sluice::detail
