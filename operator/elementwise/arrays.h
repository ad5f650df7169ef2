#pragma once

// What the formulas of the rows need to be valid for arrays: constants become Scalars, select and zero_like are found
// by their arguments.
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/special.h>

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

/// A recorded gradient of half precision is worked out in float, as the fused kernels do: 1 / (x * x) need not fit.
inline NDArray widened(const NDArray& x) {
  return x.defined() && is_floating(x.dtype()) && size_of(x.dtype()) < sizeof(float) ? x.astype(float32) : x;
}

NDArray zero_like(const NDArray& array);

inline NDArray round_nearest(const NDArray& x) {
  return round(x);
}
inline NDArray sigmoid_slope(const NDArray& x) {
  return sigmoid(x) * sigmoid(-x);
}
inline NDArray whole_quotient(const NDArray& a, const NDArray& b, const NDArray& y) {
  return where(isinf(b), where(y == b, -1, y - y), round((a - y) / b));
}
inline NDArray over_square(const NDArray& x, const NDArray& root) {
  return x / root / root;
}
// Equal numbers are subtracted, or nothing would depend on them.
inline NDArray difference(const NDArray& a, const NDArray& b) {
  return where(logical_and(a == b, isinf(a)), 0, a - b);
}

template <class... C>
NDArray polynomial(const NDArray& x, double highest, double next, C... rest) {
  NDArray sum = x * highest + next;
  ((sum = sum * x + rest), ...);
  return sum;
}

inline NDArray cos_pi(const NDArray& x) {
  return sin((0.5 - abs(x - round(x / 2) * 2)) * math::k_pi);
}
inline NDArray next_polygamma(const NDArray& x, Scalar n) {
  return polygamma(x, n.as_int64() + 1);
}

}  // namespace sluice
