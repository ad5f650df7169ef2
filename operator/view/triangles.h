#pragma once

#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>

// tril and triu as one walk over the elements.
namespace sluice::detail {

/// Which diagonal of the last two axes is the outermost that stays.
struct TriangleAttributes {
  std::int64_t k = 0;

  template <class V>
  void visit(V&& v) {
    v.field("k", k);
  }
};

/// The matrices of one call.
struct Triangles {
  std::int64_t rows, columns;
  std::int64_t first;  // columns of row 0 in front of the border; may be negative, or more than there are

  Triangles(const Shape& shape, std::int64_t k, bool upper) noexcept
      : rows(shape[shape.ndim() - 2]),
        columns(shape[shape.ndim() - 1]),
        first(std::clamp(k, -rows - 1, columns + 1) + (upper ? 0 : 1)) {}

  /// Entries of row i in front of the border: what tril keeps, and triu makes 0.
  SLUICE_HD std::int64_t border(std::int64_t i) const noexcept {
    const std::int64_t at = first + i;
    return at < 0 ? 0 : at > columns ? columns : at;
  }
};

/// What a call says.
Triangles triangles_of(const KernelCall& call);
bool keeps_upper(const Operator& op) noexcept;

void triangle_cpu(const KernelCall& call);
void triangle_gpu(const KernelCall& call);

extern const Operator k_tril, k_triu;

}  // namespace sluice::detail
