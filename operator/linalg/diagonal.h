#pragma once

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Which diagonal of the matrices of two axes: see diagonal() in products.h.
struct DiagonalAttributes {
  std::int64_t offset = 0;
  std::int64_t axis1 = 0;
  std::int64_t axis2 = 1;

  template <class V>
  void visit(V&& v) {
    v.field("offset", offset);
    v.field("axis1", axis1);
    v.field("axis2", axis2);
  }
};

/// Which diagonal diag() makes or takes.
struct DiagAttributes {
  std::int64_t k = 0;

  template <class V>
  void visit(V&& v) {
    v.field("k", k);
  }
};

/// A view of one array.
extern const Operator k_diagonal;
/// Its gradient: zeros of the second input's shape, with the first input on the diagonal.
extern const Operator k_undiagonal;
/// The sum of the diagonal.
extern const Operator k_trace;
/// A matrix of its diagonal, or the diagonal of a matrix.
extern const Operator k_diag;

/// The geometry of the diagonal of an array that lies so. Throws IndexError, ValueError, ShapeError naming `op`.
Geometry diagonal_of(const char* op, const Geometry& input, const DiagonalAttributes& which);

}  // namespace sluice::detail
