#pragma once

// What the formulas of the rows need to be valid for arrays: constants become Scalars, select and zero_like are found
// by their arguments.
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/math.h>

namespace sluice {

namespace math {
template <>
struct ConstantOf<NDArray> {
  using type = Scalar;
};
}  // namespace math

inline NDArray select(const NDArray& condition, const NDArray& a, const NDArray& b) {
  return where(condition, a, b);
}
inline NDArray select(const NDArray& condition, const NDArray& a, Scalar b) {
  return where(condition, a, b);
}
inline NDArray select(const NDArray& condition, Scalar a, const NDArray& b) {
  return where(condition, a, b);
}

NDArray zero_like(const NDArray& array);

}  // namespace sluice
