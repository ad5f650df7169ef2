// The operator `fused`: what invoke() and graphs know of it.
#include <sluice/operator/detail/families.h>
#include <sluice/operator/fused/detail/schedule.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>

namespace sluice::fused {

namespace {

Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  return specs_of(interned(attributes).program, inputs, "fused");
}

}  // namespace

const Operator k_fused{
    .name = "fused",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<FusedAttributes>,
    .infer = infer,
    .kernels = {on_cpu(run_on_cpu), on_gpu(SLUICE_GPU_KERNEL(run_on_gpu))},
    .composition = compose,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .elementwise = true,
};

bool runs_on(Device device) {
  if (k_fused.kernels[device.kind] == nullptr)
    return false;
#if SLUICE_CUDA
  if (device.is_gpu())
    return why_not_compiled(device).empty();
#endif
  return true;
}

std::string prepare([[maybe_unused]] const Attributes& attributes, [[maybe_unused]] Device device) {
#if SLUICE_CUDA
  if (device.is_gpu())
    return compile_for(attributes, device);
#endif
  return "";
}

Arrays compose(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Program& program = program_of(attributes);
  std::vector<NDArray> values(inputs.begin(), inputs.end());
  for (const Call& call : program.calls) {
    Arrays operands;
    for (const Number operand : call.operands)
      operands.push_back(values[operand]);
    values.push_back(invoke(*call.op, operands, call.attributes, site)[0]);
  }
  Shape shape = inputs[0].shape();
  for (const NDArray& input : inputs)
    shape = broadcast_shape(shape, input.shape(), "fused");
  Arrays outputs;
  for (const Number output : program.outputs) {
    const NDArray& value = values[output];
    outputs.push_back(value.shape() == shape ? value : value.broadcast_to(shape, site).copy(site));
  }
  return outputs;
}

Specs specs_of(const Program& program, std::span<const ArraySpec> inputs, const char* op) {
  require<ValueError>(inputs.size() == program.inputs.size(), [&] {
    return message(op, ": the program takes ", program.inputs.size(), " inputs, was given ", inputs.size());
  });
  Shape shape = inputs[0].shape;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require<DTypeError>(inputs[i].dtype == program.inputs[i], [&] {
      return message(op, ": input ", i, " is ", inputs[i].dtype, ", the program takes ", program.inputs[i]);
    });
    if (!(inputs[i].shape == shape))
      shape = broadcast_shape(shape, inputs[i].shape, op);
  }
  Specs specs;
  for (const Number output : program.outputs)
    specs.push_back({shape, program.calls[output - program.inputs.size()].dtype, inputs[0].device});
  return specs;
}

std::string names_of_calls(const Program& program) {
  std::string text;
  for (const Call& call : program.calls)
    text += message(text.empty() ? "" : ", ", call.op->name);
  return text;
}

std::string to_text(const Program& program, std::span<const std::string> inputs, std::span<const std::string> outputs) {
  std::vector<std::string> names(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < program.calls.size(); ++i)
    names.push_back(message('t', i));
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    names[program.outputs[i]] = outputs[i];
  std::string text;
  for (std::size_t i = 0; i < program.calls.size(); ++i) {
    const Call& call = program.calls[i];
    std::string operands;
    for (const Number operand : call.operands)
      operands += (operands.empty() ? "" : ", ") + names[operand];
    const std::string attributes = to_string(call.attributes);
    text +=
        message(text.empty() ? "" : "; ", names[program.inputs.size() + i], " = ", call.op->name, '(', operands, ')');
    if (!attributes.empty())
      text += " {" + attributes + '}';
  }
  return text;
}

}  // namespace sluice::fused

sluice::detail::OperatorList sluice::detail::fused_operators() noexcept {
  static const Operator* const all[] = {&fused::k_fused, &fused::k_fused_reduction};
  return all;
}
