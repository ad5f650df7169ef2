#include <algorithm>
#include <utility>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/linalg/decompositions.h>
#include <sluice/operator/linalg/gradients.h>
#include <sluice/operator/linalg/steps.h>
#include <sluice/operator/matmul/matmul.h>

namespace sluice::detail {

namespace {

NDArray turned(const NDArray& x) {
  return x.swapaxes(-1, -2);
}
NDArray inverse_of_determinant(const NDArray& x) {
  return invoke_one(k_det_backward, {x}, {}, SourceLocation::current());
}
// a^T b and a b^T.
NDArray turned_by(const NDArray& a, const NDArray& b) {
  return matmul(a, b, true, false);
}
NDArray by_turned(const NDArray& a, const NDArray& b) {
  return matmul(a, b, false, true);
}

/// Of vectors as rows and as columns beside matrices.
NDArray along_rows(const NDArray& x) {
  return x.expand_dims(unseen_shape(x).ndim() - 1);
}
NDArray along_columns(const NDArray& x) {
  return x.expand_dims(unseen_shape(x).ndim());
}
NDArray on_matrices(const NDArray& x) {
  return along_columns(along_columns(x));
}

NDArray mean_with_turned(const NDArray& x) {
  return multiply(add(x, turned(x)), 0.5);
}

/// Rows and columns of square matrices, to be compared.
struct Places {
  explicit Places(const NDArray& x) {
    const std::int64_t n = unseen_shape(x).back();
    const NDArray count = arange(0, static_cast<double>(n), 1, {.dtype = int32, .device = x.device()});
    row = count.expand_dims(1);
    column = count.expand_dims(0);
  }
  NDArray row, column;
};

// Rows and columns of matrices, asked for where calls follow from which are more: a trace serves no others then.
std::pair<std::int64_t, std::int64_t> asked_extents(const NDArray& left, const NDArray& right) {
  const auto asked = [](const NDArray& x) { return unseen_shape(x).ndim() > 2 ? extents_beside_batch(x) : x.shape(); };
  const Shape of_left = asked(left);
  return {of_left[of_left.ndim() - 2], asked(right).back()};
}

NDArray added(const NDArray& sum, const NDArray& term) {
  return sum.defined() ? add(sum, term) : term;
}

// 1 / x, of 0 nothing.
NDArray inverse_or_none(const NDArray& x) {
  const NDArray none = equal(x, 0);
  return where(none, 0, reciprocal(where(none, 1, x)));
}

// 1 / (b_j - a_i) for values of vectors, where they differ.
NDArray gaps(const NDArray& values) {
  return inverse_or_none(subtract(along_rows(values), along_columns(values)));
}

// dA of A = Q R with as many columns as R has: (dQ + Q copyltu(M)) R^-T with M = R dR^T - dQ^T Q.
NDArray of_square_r(const NDArray& q, const NDArray& r, const NDArray& dq, const NDArray& dr) {
  NDArray m;
  if (dr.defined())
    m = by_turned(r, dr);
  if (dq.defined())
    m = added(m, negative(turned_by(dq, q)));
  const Places at(m);
  const NDArray lower = where(greater_equal(at.row, at.column), m, 0);
  const NDArray strict = where(greater(at.row, at.column), m, 0);
  const NDArray inner = added(dq, matmul(q, add(lower, turned(strict))));
  return turned(triangular_solve(r, turned(inner), {.lower = false}));
}

}  // namespace

// S = L^-T phi(L^T dL) L^-1, where phi takes the lower triangle and half of the diagonal.
Arrays cholesky_gradient(const GradientCall& call) {
  const NDArray &l = call.outputs[0], &dl = call.output_grads[0];
  if (!dl.defined())
    return {NDArray()};
  const NDArray product = turned_by(l, dl);
  const Places at(product);
  const NDArray half = where(equal(at.row, at.column), multiply(product, 0.5), 0);
  const NDArray phi = where(greater(at.row, at.column), product, half);
  const TriangularOptions back{.transpose = true};
  return {mean_with_turned(triangular_solve(l, turned(triangular_solve(l, phi, back)), back))};
}

Arrays triangular_solve_gradient(const GradientCall& call) {
  const auto& how = call.attributes.as<TriangularAttributes>();
  const NDArray &a = call.inputs[0], &y = call.outputs[0], &dy = call.output_grads[0];
  Arrays grads(2);
  if (!dy.defined())
    return grads;
  const NDArray db = triangular_solve(a, dy, {how.lower, !how.transpose, how.unit_diagonal});
  if (call.wanted[0]) {
    const NDArray da = negative(how.transpose ? by_turned(y, db) : by_turned(db, y));
    const Places at(da);
    const NDArray &high = how.lower ? at.row : at.column, &low = how.lower ? at.column : at.row;
    grads[0] = where(how.unit_diagonal ? greater(high, low) : greater_equal(high, low), da, 0);
  }
  if (call.wanted[1])
    grads[1] = db;
  return grads;
}

Arrays solve_gradient(const GradientCall& call) {
  const NDArray &y = call.outputs[0], &dy = call.output_grads[0];
  Arrays grads(2);
  if (!dy.defined())
    return grads;
  const NDArray db = solve(turned(call.inputs[0]), dy);
  if (call.wanted[0])
    grads[0] = negative(by_turned(db, y));
  if (call.wanted[1])
    grads[1] = db;
  return grads;
}

Arrays inverse_gradient(const GradientCall& call) {
  const NDArray &y = call.outputs[0], &dy = call.output_grads[0];
  return {dy.defined() ? negative(by_turned(turned_by(y, dy), y)) : NDArray()};
}

Arrays det_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  return {multiply(on_matrices(multiply(dy, call.outputs[0])), turned(inverse_of_determinant(call.inputs[0])))};
}

Arrays slogdet_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[1];
  return {dy.defined() ? multiply(on_matrices(dy), turned(inverse_of_determinant(call.inputs[0]))) : NDArray()};
}

// Of a wide x = (left, right) = q (r', v) it is right = q v that depends on q beside.
Arrays qr_gradient(const GradientCall& call) {
  const NDArray &q = call.outputs[0], &r = call.outputs[1], &dr = call.output_grads[1];
  NDArray dq = call.output_grads[0];
  if (!dq.defined() && !dr.defined())
    return {NDArray()};
  const auto [m, n] = asked_extents(q, r);
  if (m >= n)
    return {of_square_r(q, r, dq, dr)};
  const auto left = [m = m](const NDArray& x) { return x.slice(-1, 0, m); };
  const auto right = [m = m, n = n](const NDArray& x) { return x.slice(-1, m, n); };
  if (!dr.defined())
    return {concat({of_square_r(q, left(r), dq, {}), zeros_like(matmul(q, right(r)))}, -1)};
  dq = added(dq, by_turned(matmul(q, right(r)), right(dr)));
  return {concat({of_square_r(q, left(r), dq, left(dr)), matmul(q, right(dr))}, -1)};
}

Arrays svd_gradient(const GradientCall& call) {
  const NDArray &u = call.outputs[0], &s = call.outputs[1], &vh = call.outputs[2];
  const NDArray &du = call.output_grads[0], &ds = call.output_grads[1], &dvh = call.output_grads[2];
  const bool of_vectors = du.defined() || dvh.defined();
  const auto [m, n] = of_vectors ? asked_extents(u, vh) : std::pair<std::int64_t, std::int64_t>();
  // 1 / (s_j^2 - s_i^2), from sums and differences: squares would lose what is small.
  const auto weighted = [&s](const NDArray& x) {
    const NDArray product = multiply(x, gaps(s));
    return multiply(add(product, turned(product)), inverse_or_none(add(along_rows(s), along_columns(s))));
  };
  NDArray inner, dx;
  if (ds.defined())
    dx = matmul(multiply(u, along_rows(ds)), vh);
  // Both factors are symmetric, and the gaps antisymmetric, as what is weighted must be.
  if (du.defined())
    inner = multiply(weighted(turned_by(u, du)), along_rows(s));
  if (dvh.defined())
    inner = added(inner, multiply(along_columns(s), weighted(by_turned(vh, dvh))));
  if (inner.defined())
    dx = added(dx, matmul(matmul(u, inner), vh));
  if (du.defined() && m > n) {
    const NDArray outside = subtract(du, matmul(u, turned_by(u, du)));
    dx = added(dx, matmul(multiply(outside, along_rows(inverse_or_none(s))), vh));
  }
  if (dvh.defined() && n > m) {
    const NDArray outside = subtract(dvh, matmul(by_turned(dvh, vh), vh));
    dx = added(dx, matmul(multiply(u, along_rows(inverse_or_none(s))), outside));
  }
  return {dx};
}

Arrays eigh_gradient(const GradientCall& call) {
  const NDArray &w = call.outputs[0], &v = call.outputs[1];
  const NDArray &dw = call.output_grads[0], &dv = call.output_grads[1];
  NDArray dx;
  if (dw.defined())
    dx = by_turned(multiply(v, along_rows(dw)), v);
  if (dv.defined())
    dx = added(dx, by_turned(matmul(v, multiply(gaps(w), turned_by(v, dv))), v));
  return {dx.defined() ? mean_with_turned(dx) : NDArray()};
}

// dA = -P^T dP P^T + (I - A P) dP^T P P^T + P^T P dP^T (I - P A)
Arrays pinv_gradient(const GradientCall& call) {
  const NDArray &a = call.inputs[0], &p = call.outputs[0], &dp = call.output_grads[0];
  if (!dp.defined())
    return {NDArray()};
  // Whatever is square on the way is of the shorter side.
  const bool tall = a.shape()[a.ndim() - 2] >= a.shape().back();
  const NDArray left = tall ? turned_by(dp, by_turned(p, p)) : by_turned(turned_by(dp, p), p);
  const NDArray right = tall ? turned_by(p, by_turned(p, dp)) : by_turned(turned_by(p, p), dp);
  const NDArray outside_left = subtract(left, tall ? matmul(a, matmul(p, left)) : matmul(matmul(a, p), left));
  const NDArray outside_right = subtract(right, tall ? matmul(right, matmul(p, a)) : matmul(matmul(right, p), a));
  const NDArray within = tall ? turned_by(p, by_turned(dp, p)) : by_turned(turned_by(p, dp), p);
  return {subtract(add(outside_left, outside_right), within)};
}

}  // namespace sluice::detail
