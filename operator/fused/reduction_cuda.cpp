// Reductions of programs on a GPU: the reductions' own way with terms that kernels compiled at run time make.
#include <algorithm>
#include <array>
#include <vector>

#include <sluice/operator/fused/formula.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/reduce/made_on_gpu.h>

namespace sluice::fused {

namespace {

using sluice::detail::ReduceForm;
using sluice::detail::ReduceWalk;
using sluice::detail::ReductionCall;

/// None where there is nothing to reduce, or nothing comes of it.
Reduced kernel_of(const ReductionCall& reduction, const TensorView& terms) {
  const ReduceForm form = sluice::detail::form_of_row(reduction.row, terms, reduction.axes);
  if (form.walk == ReduceWalk::nothing)
    return {};
  return ReductionKernel{reduction.row, form.walk, form.vector};
}

Reduced kernel_of(const Attributes& attributes, std::span<const ArraySpec> inputs) {
  const ArraySpec made = specs_of(reduced_program_of(attributes), inputs, k_fused_reduction.name)[0];
  const TensorView terms{
      .shape = made.shape, .strides = contiguous_strides(made.shape), .size = made.shape.size(), .dtype = made.dtype};
  return kernel_of(reduction_of(attributes), terms);
}

/// The program's first result for a reduction, its others to where they are wanted.
class ProgramTerms final : public sluice::detail::MadeOnGpu {
 public:
  ProgramTerms(const KernelCall& call, const Compiled& kernels, const Args& args)
      : call_(call), kernels_(kernels), args_(args) {}

  void launch(const ReduceForm& form, std::span<void* const> own) const override {
    TermsLayout terms = terms_layout_of(args_, static_cast<int>(call_.inputs.size()), form.vector);
    std::array<void*, k_operands> pointers{};
    std::size_t count = 0;
    bool together = terms.together;
    for (const TensorView& other : call_.outputs.subspan(1)) {
      const std::size_t bytes = size_of(other.dtype) * static_cast<std::size_t>(form.vector);
      together = together && reinterpret_cast<std::uintptr_t>(other.data) % bytes == 0;
      pointers[count++] = other.data;
    }
    for (std::size_t input = 0; input < call_.inputs.size(); ++input)
      pointers[count++] = args_.data[1 + input];
    std::vector<void*> parameters(own.begin(), own.end());
    parameters.push_back(terms.layout.words.data());
    parameters.push_back(pointers.data());
    parameters.push_back(const_cast<std::uint64_t*>(kernels_.numbers.data()));
    const Block threads = form.walk == ReduceWalk::columns ? Block{32, 8} : Block{256};
    const void* const kernel = kernels_.kernels[together || form.vector == 1 ? 0 : 1];
    launch_kernel(kernels_, kernel, form.blocks, threads, parameters.data(), call_.queue.stream());
  }

 private:
  const KernelCall& call_;
  const Compiled& kernels_;
  const Args& args_;
};

}  // namespace

std::string compile_reduction_for(const Attributes& attributes, std::span<const ArraySpec> inputs) {
  const Reduced kernel = kernel_of(attributes, inputs);
  return kernel ? compiled(reduced_program_of(attributes), inputs[0].device.index, kernel).problem : "";
}

std::optional<KernelSource> source_of_reduction(const Attributes& attributes, std::span<const ArraySpec> inputs) {
  const Reduced kernel = kernel_of(attributes, inputs);
  return kernel ? std::optional(source_of(reduced_program_of(attributes), *kernel)) : std::nullopt;
}

void reduce_on_gpu(const KernelCall& call) {
  const Program& program = reduced_program_of(call.attributes);
  const ReductionCall reduction = reduction_of(call.attributes);
  const TensorView terms = terms_of(call);
  const Operator& row = sluice::detail::operator_of(reduction.row);
  const KernelCall reduce{row, call.queue, {&terms, 1}, call.outputs.first(1), call.attributes};
  if (!keeps_bits(call.queue.device(), reduction.row))
    return reduce_in_two_steps(call);
  const Reduced kernel = kernel_of(reduction, terms);
  if (!kernel)
    return sluice::detail::reduce_made_on_gpu(reduction, reduce, nullptr);
  const Compiled* const kernels = kernels_for(call, program, kernel);
  if (kernels == nullptr)
    return reduce_in_two_steps(call);
  const Straightened straight(call, {&terms, 1});
  // Beyond that many elements numbers of theirs do not fit.
  if (!fits_32_bits(straight.args().plan))
    return reduce_in_two_steps(call);
  const ProgramTerms made(call, *kernels, straight.args());
  sluice::detail::reduce_made_on_gpu(reduction, reduce, &made);
}

}  // namespace sluice::fused
