#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/fused/program.h>
#include <sluice/operator/reduce/form.h>
#include <sluice/operator/reduce/row_states.h>

// A program as CUDA source, made of the rows' own formulas. Kernels of one program differ in how they walk, not in what
// is known of shapes: sizes, strides, which operands are repeated and the numbers beside arrays are arguments.
namespace sluice::fused {

/// The source is the key under which a compiled program is kept: programs that differ in numbers alone share it.
struct KernelSource {
  std::string text = {};
  int results = 0, operands = 0;          // of the kernels: results, then inputs
  int neighbours = 1;                     // elements that `sluice_flat` and `sluice_vectors` move at once
  int several = 1;                        // elements of a thread in `sluice_streams`
  std::vector<const char*> kernels = {};  // their names
};

/// Throws UnsupportedError for a program with an operator that has no formula.
KernelSource source_of(const Program& program);

/// A kernel of a reduction that takes in the first result of a program and writes the others down: of which row, and
/// in which form.
struct ReductionKernel {
  Reduction row = Reduction::sum;
  sluice::detail::ReduceWalk walk = sluice::detail::ReduceWalk::rows;
  int vector = 1;
  bool operator==(const ReductionKernel&) const = default;
};

/// In two forms: `sluice_together` reads and writes the neighbours that a thread has at once, `sluice_apart`, where
/// there are several, each by itself. The first result is none of KernelSource::results. Throws as above, and
/// std::invalid_argument for the walk `nothing`.
KernelSource source_of(const Program& program, const ReductionKernel& kernel);

/// The numbers beside arrays in the order of the source: bits of the types that they are computed with in.
std::vector<std::uint64_t> numbers_of(const Program& program);

}  // namespace sluice::fused
