#pragma once

#include <cstdint>

#include <sluice/ndarray/iterate.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/reduce/split.h>

namespace sluice::detail {

/// Attributes of all reductions. `axes` are sorted, not negative, and at least one unless x has none.
struct ReduceAttributes {
  Shape axes;
  bool keepdims = false;

  template <class V>
  void visit(V&& v) {
    v.field("axes", axes);
    v.field("keepdims", keepdims);
  }
};

/// Of those that divide by their number of terms: by `ddof` less.
struct MomentAttributes {
  Shape axes;
  bool keepdims = false;
  std::int64_t ddof = 0;

  template <class V>
  void visit(V&& v) {
    v.field("axes", axes);
    v.field("keepdims", keepdims);
    v.field("ddof", ddof);
  }
};

inline std::int64_t ddof_of(const ReduceAttributes&) noexcept {
  return 0;
}
inline std::int64_t ddof_of(const MomentAttributes& a) noexcept {
  return a.ddof;
}

/// Of divide_by_terms: by the extents of these axes, less `fewer`, but not by less than 0.
struct TermsAttributes {
  Shape axes;
  std::int64_t fewer = 0;

  template <class V>
  void visit(V&& v) {
    v.field("axes", axes);
    v.field("fewer", fewer);
  }
};

/// One reduction as loops: for each kept element, over all reduced ones. Operand 0 of `kept` is the (contiguous)
/// output, operand 1 and the operand of `reduced` the input.
struct ReducePlan {
  StridedPlan<2> kept;
  StridedPlan<1> reduced;

  std::int64_t outputs() const noexcept { return kept.size; }
  std::int64_t terms() const noexcept { return reduced.size; }
  /// Neighbouring outputs read neighbouring inputs, and the terms of one output are apart.
  bool columns() const noexcept {
    return kept.inner() > 1 && kept.inner_stride(1) == 1 && (reduced.ndim > 1 || reduced.inner_stride(0) != 1);
  }
};

/// Splits x by `axes`.
ReducePlan plan_reduce(const TensorView& x, const Shape& axes);

/// Offset of output `index` in the input, in elements.
inline std::int64_t kept_offset(const ReducePlan& plan, std::int64_t index) {
  std::int64_t offset = 0;
  walk_runs(plan.kept, index, index + 1, [&](const StridedRun<2>& run) { offset = run.offset[1]; });
  return offset;
}

/// What is left of `shape`: without `axes`, or with them as 1.
Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdims);

}  // namespace sluice::detail
