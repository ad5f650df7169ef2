// The operator `fused_reduction`: what invoke() and graphs know of it.
#include <algorithm>
#include <string>
#include <vector>

#include <sluice/operator/fused/detail/schedule.h>
#include <sluice/operator/fused/formula.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/workspace.h>

namespace sluice::fused {

namespace {

using sluice::detail::ReductionCall;

const char* const k_name = "fused_reduction";

void check_axes(const Shape& axes, const Shape& shape) {
  std::int64_t least = 0;
  for (const std::int64_t axis : axes) {
    require<IndexError>(axis >= least && axis < shape.ndim(), [&] {
      return message(k_name, ": axes ", axes, " are not sorted axes of shape ", shape);
    });
    least = axis + 1;
  }
}

Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Program& program = reduced_program_of(attributes);
  const ReductionCall reduction = reduction_of(attributes);
  Specs specs = specs_of(program, inputs, k_name);
  const ArraySpec made = specs[0];
  check_axes(reduction.axes, made.shape);
  const Operator& row = sluice::detail::operator_of(reduction.row);
  require<DTypeError>(sluice::detail::reads(reduction.row, made.dtype), [&] {
    return message(k_name, ": ", row.name, " takes floating elements, the program gives ", made.dtype);
  });
  specs[0] = row.infer(row, {&made, 1}, sluice::detail::attributes_of(reduction))[0];
  return specs;
}

}  // namespace

const Operator k_fused_reduction{
    .name = k_name,
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<FusedReductionAttributes>,
    .infer = infer,
    .kernels = {on_cpu(reduce_on_cpu), on_gpu(SLUICE_GPU_KERNEL(reduce_on_gpu))},
    .composition = compose_reduction,
    .strided_inputs = k_all,
};

// On a GPU logsumexp joins by products and sums, which two compilers contract differently: the last bits are others.
bool keeps_bits(Device device, Reduction row) {
  return !device.is_gpu() || row != Reduction::logsumexp;
}

bool reduces_on(Device device, Reduction row) {
  return keeps_bits(device, row) && k_fused_reduction.kernels[device.kind] != nullptr && runs_on(device);
}

std::string prepare_reduction(
    [[maybe_unused]] const Attributes& attributes, [[maybe_unused]] std::span<const ArraySpec> inputs) {
#if SLUICE_CUDA
  if (inputs[0].device.is_gpu())
    return compile_reduction_for(attributes, inputs);
#endif
  return "";
}

Attributes attributes_of(const Program& program, const ReductionCall& reduction) {
  std::string text = to_text(program);
  const Interned& known = interned(text);
  return Attributes::of(FusedReductionAttributes{
      std::move(text),
      sluice::detail::operator_of(reduction.row).name,
      reduction.axes,
      reduction.keepdims,
      reduction.ddof,
      &known});
}

const Interned& interned_reduced(const Attributes& attributes) {
  const auto& reduced = attributes.as<FusedReductionAttributes>();
  return reduced.known != nullptr ? *reduced.known : interned(reduced.program);
}

const Program& reduced_program_of(const Attributes& attributes) {
  return interned_reduced(attributes).program;
}

ReductionCall reduction_of(const Attributes& attributes) {
  const auto& reduced = attributes.as<FusedReductionAttributes>();
  const auto row = sluice::detail::row_named(reduced.reduction);
  require<ValueError>(row.has_value(), [&] { return message(k_name, ": no reduction \"", reduced.reduction, '"'); });
  require<ValueError>(reduced.ddof == 0 || sluice::detail::takes_ddof(*row), [&] {
    return message(k_name, ": ", reduced.reduction, " is not told ddof, was given ", reduced.ddof);
  });
  return {*row, reduced.axes, reduced.keepdims, reduced.ddof};
}

std::string names_of_calls(const Attributes& attributes) {
  const Program& program = reduced_program_of(attributes);
  return names_of_calls(program) + ", " + sluice::detail::operator_of(reduction_of(attributes).row).name;
}

std::string to_text(
    const Attributes& attributes, std::span<const std::string> inputs, std::span<const std::string> outputs) {
  const Program& program = reduced_program_of(attributes);
  const ReductionCall reduction = reduction_of(attributes);
  std::vector<std::string> made(outputs.begin(), outputs.end());
  made[0] = message('t', program.outputs[0] - program.inputs.size());
  const auto also = std::find(program.outputs.begin() + 1, program.outputs.end(), program.outputs[0]);
  const std::string terms =
      also == program.outputs.end() ? made[0] : outputs[static_cast<std::size_t>(also - program.outputs.begin())];
  return message(
      to_text(program, inputs, made),
      "; ",
      outputs[0],
      " = ",
      sluice::detail::operator_of(reduction.row).name,
      '(',
      terms,
      ") {",
      to_string(sluice::detail::attributes_of(reduction)),
      '}');
}

Part part_of(const Program& program, std::span<const Number> outputs) {
  const std::size_t inputs = program.inputs.size();
  std::vector<bool> needed(inputs + program.calls.size());
  for (const Number output : outputs)
    needed[output] = true;
  for (std::size_t call = program.calls.size(); call-- > 0;) {
    for (const Number operand : program.calls[call].operands)
      needed[operand] = needed[operand] || needed[inputs + call];
  }
  Part part;
  std::vector<Number> numbers(needed.size());
  std::size_t count = 0;
  for (std::size_t value = 0; value < needed.size(); ++value) {
    if (!needed[value])
      continue;
    numbers[value] = static_cast<Number>(count++);
    if (value < inputs) {
      part.program.inputs.push_back(program.inputs[value]);
      part.inputs.push_back(value);
      continue;
    }
    part.program.calls.push_back(program.calls[value - inputs]);
    for (Number& operand : part.program.calls.back().operands)
      operand = numbers[operand];
  }
  for (const Number output : outputs)
    part.program.outputs.push_back(numbers[output]);
  return part;
}

TensorView terms_of(const KernelCall& call) {
  const Program& program = reduced_program_of(call.attributes);
  TensorView terms{.shape = call.inputs[0].shape, .dtype = type_of(program, program.outputs[0])};
  for (const TensorView& input : call.inputs)
    terms.shape = broadcast_shape(terms.shape, input.shape, call.op.name);
  terms.strides = contiguous_strides(terms.shape);
  terms.size = terms.shape.size();
  return terms;
}

void reduce_in_two_steps(const KernelCall& call) {
  TensorView terms = terms_of(call);
  const Workspace scratch(call.queue, static_cast<std::size_t>(terms.size) * size_of(terms.dtype));
  terms.data = scratch.data();
  std::vector<TensorView> made(call.outputs.begin(), call.outputs.end());
  made[0] = terms;
  const DeviceKind kind = call.queue.device().kind;
  const Attributes program = attributes_of(reduced_program_of(call.attributes));
  k_fused.kernels[kind]({k_fused, call.queue, call.inputs, made, program});
  const ReductionCall reduction = reduction_of(call.attributes);
  const Operator& row = sluice::detail::operator_of(reduction.row);
  const Attributes told = sluice::detail::attributes_of(reduction);
  row.kernels[kind]({row, call.queue, {&terms, 1}, call.outputs.first(1), told});
}

Arrays compose_reduction(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const ReductionCall reduction = reduction_of(attributes);
  Arrays made = compose(inputs, attributes_of(reduced_program_of(attributes)), site);
  const Operator& row = sluice::detail::operator_of(reduction.row);
  made[0] = invoke_one(row, {made[0]}, sluice::detail::attributes_of(reduction), site);
  return made;
}

}  // namespace sluice::fused
