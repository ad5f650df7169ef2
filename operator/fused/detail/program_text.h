#pragma once

#include <string>
#include <string_view>

#include <sluice/operator/fused/program.h>

// A program as one function of CUDA C++, around which sources of kernels are written.
namespace sluice::fused {

/// `run(n, v0, .., r0, ..)`: the results of one element from its inputs and the numbers beside arrays.
struct ProgramText {
  std::string function = {};  // its definition
  int numbers = 0;            // that stand beside arrays; N of Numbers is at least 1
  int uses = 0;               // of read<> so far

  /// The N of Numbers<N>.
  int kept() const noexcept { return numbers > 0 ? numbers : 1; }
};

/// Throws UnsupportedError for a program with an operator that has no formula.
ProgramText text_of_function(const Program& program);

/// What elements of a type are computed with in, as C++.
std::string_view compute_name(DType dtype);
/// Whether what a call gives may be a product that a sum behind it would become one with.
bool may_be_fused(const Program& program, Number value);

}  // namespace sluice::fused
