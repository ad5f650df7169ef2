#pragma once

// Programs with a reduction behind them, for tests: as one node, and one after the other.
#include <cstring>
#include <optional>
#include <span>
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

inline std::string all_bits(const Arrays& arrays) {
  std::string all;
  for (const NDArray& array : arrays)
    all += bits_of(array);
  return all;
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

/// Small, so that products of many are numbers still.
inline NDArray random_terms(const Shape& shape, std::uint64_t seed, DType dtype, Device device = cpu()) {
  return random_array(shape, seed, is_floating(dtype) ? -1.5 : 0, is_floating(dtype) ? 1.5 : 3, dtype).to(device);
}

inline bool takes_nothing(Reduction row) {
  return row != Reduction::max && row != Reduction::min;
}

struct RandomReduction {
  fused::Program program = {};
  sluice::detail::ReductionCall call = {};
  Arrays inputs = {};
};

/// A program drawn at random with a reduction behind it, of one of the shapes, some inputs stretched to it; none where
/// the row takes no such terms.
inline std::optional<RandomReduction> random_reduction(
    ProgramDraw& draw, std::span<const Shape> shapes, std::uint64_t seed, Device device) {
  static const std::vector<Reduction> rows = all_reductions();
  RandomReduction made{.program = draw.draw()};
  const Shape& shape = shapes[draw.below(shapes.size())];
  made.call.row = rows[draw.below(rows.size())];
  const DType terms = fused::type_of(made.program, made.program.outputs[0]);
  if (!sluice::detail::reads(made.call.row, terms) || (shape.size() == 0 && !takes_nothing(made.call.row)))
    return std::nullopt;
  // Gradients have the whole shape.
  const bool stretched = fused::to_text(made.program).find("_backward") == std::string::npos;
  for (const DType dtype : made.program.inputs) {
    Shape part = shape;
    if (!made.inputs.empty() && stretched && draw.below(3) == 0)
      part[static_cast<int>(draw.below(static_cast<std::size_t>(shape.ndim())))] = 1;
    made.inputs.push_back(random_array(part, seed, -2, 2, dtype).to(device));
  }
  const auto sets = sets_of_axes(shape.ndim());
  made.call.axes = sets[draw.below(sets.size())];
  made.call.keepdims = draw.below(2) == 0;
  return made;
}

}  // namespace sluice::test
