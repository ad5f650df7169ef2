#pragma once

#include <string>

#include <sluice/operator/fused/program.h>
#include <sluice/operator/operator.h>

// Fused programs on a GPU: one kernel, compiled at run time (source.h, compiled.h), or call by call where none can be.
namespace sluice::fused {

/// Whether programs can be compiled for that GPU: "" if they can, else a sentence that says what is missing. A graph is
/// not fused where they cannot.
std::string why_not_compiled(Device gpu);

/// Does what prepare() says (fused.h).
std::string compile_for(const Attributes& attributes, Device gpu);

/// The kernel of the operator `fused`.
void run_on_gpu(const KernelCall& call);

/// to = from, of other strides or another type, stretched.
void move_on_gpu(const KernelCall& call, const TensorView& from, const TensorView& to);

/// Each call with its operator's own kernel, results in scratch memory.
void run_one_by_one(const KernelCall& call, const Program& program);

}  // namespace sluice::fused
