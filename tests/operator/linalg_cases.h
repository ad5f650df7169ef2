#pragma once

// Products and what is linear algebra beside them, among the cases of differentiable_cases.h.
#include <string>

#include "tests/operator/differentiable_case.h"

namespace sluice::test::case_parts {

/// Of any numbers between -1 and 1 matrices that are far from singular, with values far from each other.
inline NDArray sound(const NDArray& x) {
  const Shape& shape = x.shape();
  const auto count = [&x](std::int64_t n) { return arange(0, static_cast<double>(n), 1, {.device = x.device()}); };
  const NDArray row = count(shape[shape.ndim() - 2]).expand_dims(1), column = count(shape.back()).expand_dims(0);
  return widened(x) * 0.5 + where(equal(row, column), (row + 1) * 3, 0).astype(widened(x).dtype());
}

/// The same symmetric, and positive definite.
inline NDArray symmetric(const NDArray& x) {
  const NDArray matrices = sound(x);
  return matrices + matrices.swapaxes(-1, -2);
}

// What singular vectors and the like have in common, whichever sign they were given.
inline NDArray squares_by(const NDArray& a, const NDArray& scales, const NDArray& b) {
  return matmul(a * a * scales.expand_dims(-2), b * b);
}

inline void add_decompositions(Cases& cases) {
  const Shape square{2, 3, 3};
  const auto add = [&](const std::string& name,
                       const std::vector<Shape>& shapes,
                       const std::function<NDArray(const std::vector<NDArray>&)>& f) {
    cases.push_back({name, shapes, f, -1, 1, 20});
  };
  add("cholesky", {square}, [](const auto& v) { return cholesky(symmetric(v[0])); });
  add("inverse", {square}, [](const auto& v) { return inverse(sound(v[0])); });
  add("det_backward", {square}, [](const auto& v) {
    return invoke_one(*find_operator("det_backward"), {sound(v[0])}, {}, SourceLocation::current());
  });
  add("det", {square}, [](const auto& v) { return det(sound(v[0]) * 0.3); });
  add("slogdet", {square}, [](const auto& v) { return slogdet(sound(v[0])).logabsdet; });
  add("solve", {square, {2, 3, 2}}, [](const auto& v) { return solve(sound(v[0]), widened(v[1])); });
  add("solve of a vector", {{3, 3}, {3}}, [](const auto& v) { return solve(sound(v[0]), widened(v[1])); });
  for (const bool lower : {true, false}) {
    for (const bool transpose : {true, false}) {
      const TriangularOptions how{.lower = lower, .transpose = transpose, .unit_diagonal = lower && transpose};
      add("triangular_solve", {{3, 3}, {2, 3, 2}}, [how](const auto& v) {
        return triangular_solve(sound(v[0]) * 0.3, widened(v[1]), how);
      });
    }
  }
  for (const Shape& shape : {Shape{2, 3, 3}, Shape{4, 2}, Shape{2, 4}}) {
    add(message("qr ", shape), {shape}, [](const auto& v) {
      const Qr parts = qr(sound(v[0]));
      return matmul(parts.q * parts.q, parts.r * parts.r);
    });
    add(message("svd ", shape), {shape}, [](const auto& v) {
      const Svd parts = svd(sound(v[0]));
      return squares_by(parts.u, parts.s, parts.vh);
    });
    add(message("pinv ", shape), {shape}, [](const auto& v) { return pinv(sound(v[0])); });
  }
  add("eigh", {square}, [](const auto& v) {
    const Eigh parts = eigh(symmetric(v[0]));
    return squares_by(parts.vectors, parts.values, parts.vectors.swapaxes(-1, -2));
  });
  add("cholesky of none", {{0, 3, 3}}, [](const auto& v) { return cholesky(symmetric(v[0])); });
  add("solve for none", {{3, 3}, {3, 0}}, [](const auto& v) { return solve(sound(v[0]), widened(v[1])); });
  add("det of none", {{2, 0, 0}}, [](const auto& v) { return det(v[0]); });
}

inline void add_diagonals(Cases& cases) {
  cases.push_back({"diagonal", {{3, 4}}, [](const auto& v) { return diagonal(v[0]); }});
  cases.push_back({"diagonal of a batch", {{3, 2, 4}}, [](const auto& v) { return diagonal(v[0], -1, 2, 0); }});
  cases.push_back({"diagonal beyond", {{3, 4}}, [](const auto& v) { return diagonal(v[0], 4); }});
  cases.push_back({"undiagonal", {{2, 3}}, [](const auto& v) {
                     const Operator& op = *find_operator("undiagonal");
                     const NDArray whole = zeros({3, 2, 4}, {.device = v[0].device()});
                     return invoke_one(op, {v[0], whole}, parse_attributes(op, "axis1=0, axis2=2"), {});
                   }});
  cases.push_back({"trace", {{2, 3, 4}}, [](const auto& v) { return trace(v[0], 1, 1, 2); }});
  cases.push_back({"einsum", {{2, 3, 3}, {3, 4}, {2, 4}}, [](const auto& v) {
                     return einsum("bii,ij,bj->ib", {v[0], v[1], v[2]});
                   }});
}

}  // namespace sluice::test::case_parts
