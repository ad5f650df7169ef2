#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sluice/operator/fused/program.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/reduce/calls.h>

// A program of elementwise calls whose first result a reduction takes in, element by element: it is never in memory.
// What else the program gives is written down on the way.
namespace sluice::fused {

/// The attributes of the operator `fused_reduction`.
struct FusedReductionAttributes {
  std::string program = {};
  std::string reduction = {};  // the name of a row of reduce.def
  Shape axes = {};             // of what the program gives: sorted, not negative
  bool keepdims = false;
  std::int64_t ddof = 0;  // of the rows that are told it
  const Interned* known = nullptr;

  template <class V>
  void visit(V&& v) {
    v.field("program", program);
    v.field("reduction", reduction);
    v.field("axes", axes);
    v.field("keepdims", keepdims);
    v.field("ddof", ddof);
  }
};

/// Gives, to the last bit, what the reduction gives of the program's first result, and the others.
extern SLUICE_API const Operator k_fused_reduction;

/// Those of a call: `reduction` of the first result of `program`.
SLUICE_API Attributes attributes_of(const Program& program, const sluice::detail::ReductionCall& reduction);
/// Throws what parse() throws.
SLUICE_API const Program& reduced_program_of(const Attributes& attributes);
/// Throws ValueError where no row has the name, or it is not told `ddof`.
SLUICE_API sluice::detail::ReductionCall reduction_of(const Attributes& attributes);

/// The names of its calls, "multiply, add, sum".
std::string names_of_calls(const Attributes& attributes);
/// The calls in terms of their surroundings' names: "t0 = multiply(%0, @1); %5 = sum(t0) {axes=(1), keepdims=false}".
std::string to_text(
    const Attributes& attributes, std::span<const std::string> inputs, std::span<const std::string> outputs);

/// What a program needs for some of its values: a program of those calls and inputs, and which inputs they were.
struct Part {
  Program program;
  std::vector<std::size_t> inputs;
};
Part part_of(const Program& program, std::span<const Number> outputs);

/// Whether the row gives the same bits behind a program as alone; else its calls take two steps.
bool keeps_bits(Device device, Reduction row);
/// Whether there is a kernel for that device: graphs keep program and reduction apart elsewhere.
bool reduces_on(Device device, Reduction row);
/// As prepare() for a program (fused.h), for calls of such inputs.
std::string prepare_reduction(const Attributes& attributes, std::span<const ArraySpec> inputs);

/// What a call reduces, without memory: row by row.
TensorView terms_of(const KernelCall& call);
/// First the program, its first result in scratch memory, then the reduction.
void reduce_in_two_steps(const KernelCall& call);

// The kernel, and what invoke() does where there is none.
void reduce_on_cpu(const KernelCall& call);
Arrays compose_reduction(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

}  // namespace sluice::fused
