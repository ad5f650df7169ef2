#pragma once

// Programs for tests of the fused operator: made call by call, of every row, or at random; and the same calls eagerly.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/fused/formula.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/view/attributes.h>

#include "tests/support/compare.h"

namespace sluice::test {

/// Adds inputs and calls one by one; a call's type is what its operator infers.
struct ProgramBuilder {
  fused::Program program;

  fused::Number input(DType dtype) {
    program.inputs.push_back(dtype);
    return static_cast<fused::Number>(program.inputs.size() - 1);
  }
  /// Throws what inference throws; then nothing was added.
  fused::Number call(const char* name, std::vector<fused::Number> operands, const Attributes& attributes = {}) {
    const Operator* const op = find_operator(name);
    std::vector<ArraySpec> specs;
    for (const fused::Number operand : operands)
      specs.push_back({{}, fused::type_of(program, operand)});
    fused::Call made{op, attributes, {operands.begin(), operands.end()}};
    made.dtype = op->infer(*op, specs, attributes)[0].dtype;
    program.calls.push_back(made);
    return static_cast<fused::Number>(program.inputs.size() + program.calls.size() - 1);
  }
  fused::Program with_outputs(std::vector<fused::Number> outputs) {
    program.outputs = std::move(outputs);
    return program;
  }
};

inline Attributes beside_number(Scalar number, bool first = false) {
  return Attributes::of(sluice::detail::NumberAttribute{number, first, true});
}
inline Attributes to_type(DType dtype) {
  return Attributes::of(sluice::detail::TypeAttribute{dtype});
}

/// All operators that programs may have but casts and copies.
inline std::vector<const Operator*> fusable_operators() {
  std::vector<const Operator*> all;
  for (const Operator* const op : operators()) {
    if (op->elementwise && fused::has_formula(*op))
      all.push_back(op);
  }
  return all;
}
inline std::size_t operands_of(const Operator& op) {
  return op.inputs > 0 ? static_cast<std::size_t>(op.inputs) : std::string(op.name) == "where" ? 3 : 2;
}
/// The defaults of the row's parameters; none of an operator without.
inline Attributes default_attributes(const Operator& op) {
  return op.optional_attributes || op.attributes == &attribute_type<NoAttributes> ? Attributes()
                                                                                  : make_attributes(op, {});
}

/// A program of one call of `op` on arrays of `dtype`; no calls where the operator does not take the type.
inline fused::Program program_of_one(const Operator& op, DType dtype) {
  ProgramBuilder build;
  std::vector<fused::Number> operands;
  for (std::size_t i = 0; i < operands_of(op); ++i)
    operands.push_back(build.input(i == 0 && std::string(op.name) == "where" ? bool_ : dtype));
  try {
    const fused::Number result = build.call(op.name, operands, default_attributes(op));
    return build.with_outputs({result});
  } catch (const DTypeError&) {
    return {};
  }
}

/// Straight-line programs of any rows and types, with casts, numbers, values used twice and several outputs.
class ProgramDraw {
 public:
  explicit ProgramDraw(std::uint64_t seed) : generator_(seed) {}

  fused::Program draw() {
    static const std::vector<const Operator*> all = fusable_operators();
    ProgramBuilder build;
    const std::vector<DType> types = {
        float32, float32, float32, float16, bfloat16, float64, int32, int64, uint8, bool_};
    for (std::size_t i = 0, inputs = 1 + below(5); i < inputs; ++i)
      build.input(types[below(types.size())]);
    for (std::size_t wanted = 2 + below(12); build.program.calls.size() < wanted;)
      add(build, *all[below(all.size())]);
    const std::size_t inputs = build.program.inputs.size(), calls = build.program.calls.size();
    std::vector<fused::Number> outputs = {static_cast<fused::Number>(inputs + calls - 1)};
    for (std::size_t i = below(3); i > 0; --i)
      outputs.push_back(static_cast<fused::Number>(inputs + below(calls)));
    return build.with_outputs(outputs);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(generator_() % n); }

 private:
  fused::Number any_value(const fused::Program& program) {
    return static_cast<fused::Number>(below(program.inputs.size() + program.calls.size()));
  }
  /// A value of that type, by a cast where there is none at hand.
  fused::Number of_type(ProgramBuilder& build, DType dtype) {
    for (int tries = 0; tries < 4; ++tries) {
      const fused::Number value = any_value(build.program);
      if (fused::type_of(build.program, value) == dtype)
        return value;
    }
    return build.call("astype", {any_value(build.program)}, to_type(dtype));
  }
  void add(ProgramBuilder& build, const Operator& op) {
    const fused::Program before = build.program;
    const DType dtype = fused::type_of(build.program, any_value(build.program));
    const bool is_where = std::string(op.name) == "where", takes_numbers = op.optional_attributes;
    std::size_t count = operands_of(op);
    Attributes attributes = default_attributes(op);
    if (takes_numbers && below(3) == 0) {
      // As in graphs: of a kind that changes no type.
      const Scalar number = dtype == bool_                        ? Scalar(true)
                            : is_floating(dtype) && below(2) == 0 ? Scalar(0.75)
                                                                  : Scalar(2);
      attributes = beside_number(number, below(2) == 0);
      count -= op.inputs > 0 ? 0 : 1;
    }
    try {
      std::vector<fused::Number> operands;
      for (std::size_t i = 0; i < count; ++i)
        operands.push_back(of_type(build, i == 0 && is_where ? bool_ : dtype));
      build.call(op.name, operands, attributes);
    } catch (const DTypeError&) {
      build.program = before;
    }
  }

  std::mt19937_64 generator_;
};

}  // namespace sluice::test
