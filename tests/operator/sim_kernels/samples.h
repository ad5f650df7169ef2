#pragma once

// Programs with a reduction behind them whose kernels the simulated GPU runs.
#include <vector>

#include <sluice/operator/fused/source.h>

#include "tests/operator/reduced_programs.h"

namespace sluice::test {

struct KernelSample {
  fused::Program program;
  fused::ReductionKernel kernel;
};

/// y = relu(a * b + c) * 0.5 - a.
inline fused::Program chain_of_three(DType dtype) {
  ProgramBuilder build;
  const auto a = build.input(dtype), b = build.input(dtype), c = build.input(dtype);
  const auto relu = build.call("relu", {build.call("add", {build.call("multiply", {a, b}), c})});
  const auto half = build.call("multiply", {relu}, beside_number(0.5));
  return build.with_outputs({build.call("subtract", {half, a})});
}

/// The same with its product, and the terms themselves, written down.
inline fused::Program kept_chain_of_three(DType dtype) {
  fused::Program program = chain_of_three(dtype);
  program.outputs = {program.outputs[0], fused::Number{3}, program.outputs[0]};
  return program;
}

/// Casts on the way, and terms of another type than the inputs.
inline fused::Program mixed_chain() {
  return fused::parse(
      "float32 float32 float16; %3 = multiply(%0, %1) float32; %4 = add(%3) {number=0.5, first=false} float32; "
      "%5 = astype(%2) {dtype=float32} float32; %6 = greater(%4, %5) bool; %7 = where(%6, %4, %5) float32; "
      "%8 = astype(%7) {dtype=float16} float16; %9 = multiply(%8, %2) float16; -> %9");
}

/// Each with all walks, reading several terms at once and one.
inline std::vector<KernelSample> kernel_samples() {
  using sluice::detail::ReduceWalk;
  std::vector<KernelSample> samples;
  const auto add = [&](const fused::Program& program, Reduction row) {
    const auto bytes = static_cast<int>(size_of(fused::type_of(program, program.outputs[0])));
    for (const int vector : {1, 16 / bytes}) {
      samples.push_back({program, {row, ReduceWalk::rows, vector}});
      samples.push_back({program, {row, ReduceWalk::general, vector}});
    }
    samples.push_back({program, {row, ReduceWalk::columns, 1}});
    if (bytes == 2)
      samples.push_back({program, {row, ReduceWalk::columns, 2}});
  };
  add(chain_of_three(float32), Reduction::sum);
  add(chain_of_three(float64), Reduction::l2_norm);
  add(chain_of_three(float64), Reduction::logsumexp);  // which nobody may launch
  add(kept_chain_of_three(float32), Reduction::variance);
  add(mixed_chain(), Reduction::mean);
  add(product_for(Reduction::any, bool_), Reduction::any);
  add(product_for(Reduction::max, int32), Reduction::max);
  return samples;
}

}  // namespace sluice::test
