#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/fused/layout.h>
#include <sluice/operator/fused/program.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/workspace.h>

// Fused programs on a GPU: one kernel, compiled at run time (source.h, compiled.h), or call by call where none can be.
namespace sluice::fused {

/// Whether programs can be compiled for that GPU: "" if they can, else a sentence that says what is missing. A graph is
/// not fused where they cannot.
std::string why_not_compiled(Device gpu);

/// Does what prepare() says (fused.h).
std::string compile_for(const Attributes& attributes, Device gpu);

/// The kernels of the operators `fused` and `fused_reduction`.
void run_on_gpu(const KernelCall& call);
void reduce_on_gpu(const KernelCall& call);
/// Does what prepare_reduction() says (reduction.h).
std::string compile_reduction_for(const Attributes& attributes, std::span<const ArraySpec> inputs);
/// The source of the kernel for such inputs; none where there is nothing to reduce.
std::optional<KernelSource> source_of_reduction(const Attributes& attributes, std::span<const ArraySpec> inputs);

/// to = from, of other strides or another type, stretched.
void move_on_gpu(const KernelCall& call, const TensorView& from, const TensorView& to);

/// The inputs of a call of a program with such results. Turned ones are copied first, by a kernel that reads and writes
/// long pieces; the copies go with it.
class Straightened {
 public:
  Straightened(const KernelCall& call, std::span<const TensorView> results);
  const Args& args() const noexcept { return args_; }

 private:
  std::vector<TensorView> inputs_;
  Args args_;
  std::optional<Workspace> scratch_;
};

/// The kernels for a call of a program, compiled now unless the stream is captured; null where there are none.
const Compiled* kernels_for(const KernelCall& call, const Program& program, const Reduced& reduction = {});

/// Each call with its operator's own kernel, results in scratch memory.
void run_one_by_one(const KernelCall& call, const Program& program);

}  // namespace sluice::fused
