#pragma once

// Programs with a reduction behind them, for tests: as one node, and one after the other.
#include <cstring>
#include <string>
#include <vector>

#include <sluice/operator/fused/reduction.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/operator/fused_programs.h"
#include "tests/operator/reduction_rows.h"

namespace sluice::test {

/// Type, shape and the very bits of an array.
inline std::string bits_of(const NDArray& array) {
  std::string text = message(array.dtype(), array.shape(), ' ');
  std::string bytes(static_cast<std::size_t>(array.size()) * size_of(array.dtype()), '\0');
  array.to(cpu()).contiguous().read_out(bytes.data(), array.dtype(), array.size());
  return text + bytes;
}

inline NDArray reduced(const Attributes& attributes, const Arrays& inputs) {
  return invoke(fused::k_fused_reduction, inputs, attributes, SourceLocation::current())[0];
}
inline NDArray one_after_the_other(const Attributes& attributes, const Arrays& inputs) {
  return fused::compose_reduction(inputs, attributes, SourceLocation::current())[0];
}

/// All rows of reduce.def.
inline std::vector<Reduction> all_reductions() {
  return {
#define REDUCTION(row, ...) Reduction::row,
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION
  };
}

/// All sets of axes of an array of `ndim` axes, in order, but none of an array that has some.
inline std::vector<Shape> sets_of_axes(int ndim) {
  std::vector<Shape> sets;
  for (unsigned bits = ndim == 0 ? 0 : 1; bits < 1u << ndim; ++bits) {
    Shape axes;
    for (int axis = 0; axis < ndim; ++axis) {
      if ((bits >> axis & 1) != 0)
        axes.push_back(axis);
    }
    sets.push_back(axes);
  }
  return sets;
}

/// x * y of numbers, an exclusive or of bools; what `row` does not read is cast to float32.
inline fused::Program product_for(Reduction row, DType dtype) {
  ProgramBuilder build;
  const fused::Number x = build.input(dtype), y = build.input(dtype);
  fused::Number made = build.call(dtype == bool_ ? "logical_xor" : "multiply", {x, y});
  if (!sluice::detail::reads(row, dtype))
    made = build.call("astype", {made}, to_type(float32));
  return build.with_outputs({made});
}

}  // namespace sluice::test
