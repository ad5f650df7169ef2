#pragma once

// Which loop (CPU) or launch (CUDA) serves a row and an element type; null where the row does not take the type.
#include <type_traits>

#include <sluice/operator/elementwise/pointwise.h>
#include <sluice/operator/elementwise/rows.h>

namespace sluice::detail {

/// Does a row of this kind take elements of type T?
template <RowKind kind, class T>
inline constexpr bool k_takes = kind == RowKind::real         ? std::is_floating_point_v<math::Compute<T>>
                                : kind == RowKind::arithmetic ? !std::is_same_v<T, bool>
                                : kind == RowKind::logical    ? std::is_same_v<T, bool>
                                                              : true;
/// Does it have a gradient for T?
template <RowKind kind, class T>
inline constexpr bool k_has_gradient = !gives_bool(kind) && std::is_floating_point_v<math::Compute<T>>;

/// y from x.
PointwiseLoop unary_loop(Unary row, DType dtype);
PointwiseLaunch<2> unary_launch(Unary row, DType dtype);
/// dx from dy, x, y.
PointwiseLoop unary_gradient_loop(Unary row, DType dtype);
PointwiseLaunch<4> unary_gradient_launch(Unary row, DType dtype);
/// y from a, b; `dtype` is theirs.
PointwiseLoop binary_loop(Binary row, DType dtype);
PointwiseLaunch<3> binary_launch(Binary row, DType dtype);
/// da (operand 0) or db (operand 1) from dy, a, b, y.
PointwiseLoop binary_gradient_loop(Binary row, int operand, DType dtype);
PointwiseLaunch<5> binary_gradient_launch(Binary row, int operand, DType dtype);
/// y from a condition (bool), a, b.
PointwiseLoop where_loop(DType dtype);
PointwiseLaunch<4> where_launch(DType dtype);
/// y from x, low, high.
PointwiseLoop clip_loop(DType dtype);
PointwiseLaunch<4> clip_launch(DType dtype);
/// dx from dy, x, low, high.
PointwiseLoop clip_gradient_loop(DType dtype);
PointwiseLaunch<5> clip_gradient_launch(DType dtype);

}  // namespace sluice::detail

// Formulas that are no rows: they take a type of their own beside the operands', or constants.
namespace sluice::math {

struct Where {
  template <class T>
  SLUICE_HD static T of(bool condition, T a, T b) {
    return condition ? a : b;
  }
};
struct Clip {
  template <class T>
  SLUICE_HD static T of(T x, T low, T high) {
    return clamp(x, low, high);
  }
};
struct ClipGradient {
  template <class T>
  SLUICE_HD static T of(T dy, T x, T low, T high) {
    return x >= low && x <= high ? dy : T(0);
  }
};

}  // namespace sluice::math
