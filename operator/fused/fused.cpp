#include <sluice/operator/fused/formula.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/fused/program.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>

namespace sluice::fused {

namespace {

Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Program& program = program_of(attributes);
  Shape shape = inputs[0].shape;
  for (const ArraySpec& input : inputs)
    shape = broadcast_shape(shape, input.shape, "fused");
  Specs specs;
  for (const Number output : program.outputs)
    specs.push_back({shape, type_of(program, output), inputs[0].device});
  return specs;
}

}  // namespace

const Operator k_fused{
    .name = "fused",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<FusedAttributes>,
    .infer = infer,
    .kernels = {on_gpu(SLUICE_GPU_KERNEL(fused_gpu))},
    .strided_inputs = k_all,
    .strided_outputs = true,
    .elementwise = true,
};

}  // namespace sluice::fused
