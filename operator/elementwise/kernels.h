#pragma once

// Which loop (CPU) or launch (CUDA) serves a row and an element type; null where the row does not take the type.
#include <type_traits>

#include <sluice/operator/elementwise/pointwise.h>
#include <sluice/operator/elementwise/rows.h>

namespace sluice::detail {

/// Does a row of this kind take elements of type T?
template <RowKind kind, class T>
inline constexpr bool k_takes =
    kind == RowKind::real || kind == RowKind::special ? std::is_floating_point_v<math::Compute<T>>
    : kind == RowKind::arithmetic                     ? !std::is_same_v<T, bool>
    : kind == RowKind::logical                        ? std::is_same_v<T, bool>
    : kind == RowKind::bitwise                        ? std::is_integral_v<T>
    : kind == RowKind::whole                          ? std::is_integral_v<T> && !std::is_same_v<T, bool>
                                                      : true;
/// Does it have a gradient for T?
template <RowKind kind, class T>
inline constexpr bool k_has_gradient = is_differentiable(kind) && std::is_floating_point_v<math::Compute<T>>;

/// y from x.
PointwiseLoop unary_loop(Unary row, DType dtype);
/// dx from dy, x, y.
PointwiseLoop unary_backward_loop(Unary row, DType dtype);
/// Of rows with P parameters; these are operands behind the others, for the loops too.
template <int P>
PointwiseLaunch<2 + P> unary_launch(Unary row, DType dtype);
template <int P>
PointwiseLaunch<4 + P> unary_backward_launch(Unary row, DType dtype);
/// y from a, b; `dtype` is theirs.
PointwiseLoop binary_loop(Binary row, DType dtype);
PointwiseLaunch<3> binary_launch(Binary row, DType dtype);
/// da (operand 0) or db (operand 1) from dy, a, b, y.
PointwiseLoop binary_backward_loop(Binary row, int operand, DType dtype);
PointwiseLaunch<5> binary_backward_launch(Binary row, int operand, DType dtype);
/// y from a condition (bool), a, b.
PointwiseLoop where_loop(DType dtype);
PointwiseLaunch<4> where_launch(DType dtype);

}  // namespace sluice::detail

// A formula that is no row: it takes a type of its own beside the operands'.
namespace sluice::math {

struct Where {
  template <class T>
  SLUICE_HD static T of(bool condition, T a, T b) {
    return condition ? a : b;
  }
};

}  // namespace sluice::math
