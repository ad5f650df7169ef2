// The operator `fused_reduction`: what invoke() and graphs know of it.
#include <sluice/operator/fused/detail/schedule.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>

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
  const ArraySpec made = specs_of(program, inputs, k_name)[0];
  check_axes(reduction.axes, made.shape);
  const Operator& row = sluice::detail::operator_of(reduction.row);
  require<DTypeError>(sluice::detail::reads(reduction.row, made.dtype), [&] {
    return message(k_name, ": ", row.name, " takes floating elements, the program gives ", made.dtype);
  });
  return row.infer(row, {&made, 1}, sluice::detail::attributes_of(reduction));
}

}  // namespace

const Operator k_fused_reduction{
    .name = k_name,
    .inputs = -1,
    .attributes = &attribute_type<FusedReductionAttributes>,
    .infer = infer,
    .kernels = {on_cpu(reduce_on_cpu)},
    .composition = compose_reduction,
    .strided_inputs = k_all,
};

bool reduces_on(Device device) {
  return k_fused_reduction.kernels[device.kind] != nullptr;
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
  const Interned& known = reduced.known != nullptr ? *reduced.known : interned(reduced.program);
  require<ValueError>(known.program.outputs.size() == 1, [&] {
    return message(k_name, ": one result can be reduced, the program gives ", known.program.outputs.size());
  });
  return known;
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

std::string to_text(const Attributes& attributes, std::span<const std::string> inputs, const std::string& output) {
  const Program& program = reduced_program_of(attributes);
  const ReductionCall reduction = reduction_of(attributes);
  const std::string terms = message('t', program.outputs[0] - program.inputs.size());
  return message(
      to_text(program, inputs, {&terms, 1}),
      "; ",
      output,
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

Arrays compose_reduction(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const ReductionCall reduction = reduction_of(attributes);
  const Arrays made = compose(inputs, attributes_of(reduced_program_of(attributes)), site);
  return invoke(sluice::detail::operator_of(reduction.row), made, sluice::detail::attributes_of(reduction), site);
}

}  // namespace sluice::fused
