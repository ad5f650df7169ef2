// A fused program on a GPU without a kernel of its own.
#include <optional>

#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/operator/fused/formula.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/workspace.h>

namespace sluice::fused {

namespace {

constexpr std::size_t k_alignment = 256;

/// Where the results of the calls lie: in slots of scratch memory that are used again, or in the outputs once nobody
/// reads inputs any more, over which outputs may lie.
struct Places {
  std::vector<std::optional<std::size_t>> output;  // by value
  std::vector<std::size_t> slot;                   // by value
  std::size_t slots = 0;
};

Places places_of(const Program& program) {
  const std::size_t inputs = program.inputs.size(), values = inputs + program.calls.size();
  std::vector<std::size_t> last_use(values, 0);
  std::size_t last_of_inputs = 0;
  for (std::size_t call = 0; call < program.calls.size(); ++call) {
    last_use[inputs + call] = call;
    for (const Number operand : program.calls[call].operands) {
      last_use[operand] = call;
      if (operand < inputs)
        last_of_inputs = call;
    }
  }
  Places places{std::vector<std::optional<std::size_t>>(values), std::vector<std::size_t>(values)};
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const Number value = program.outputs[i];
    last_use[value] = program.calls.size();
    if (value - inputs >= last_of_inputs)
      places.output[value] = i;
  }
  std::vector<std::size_t> free_after;  // by slot: the call after which it is free
  for (std::size_t call = 0; call < program.calls.size(); ++call) {
    if (places.output[inputs + call])
      continue;
    std::size_t slot = 0;
    while (slot < free_after.size() && free_after[slot] >= call)
      ++slot;
    if (slot == free_after.size())
      free_after.push_back(0);
    free_after[slot] = last_use[inputs + call];
    places.slot[inputs + call] = slot;
  }
  places.slots = free_after.size();
  return places;
}

}  // namespace

void move_on_gpu(const KernelCall& call, const TensorView& from, const TensorView& to) {
  const Shape stretched = sluice::broadcast_strides(from.shape, from.strides, to.shape, call.op.name);
  const auto plan =
      sluice::detail::plan_strided<2>(to.shape, {&to.strides, &stretched}, sluice::detail::AxisOrder::free);
  sluice::detail::cast_on_gpu(call.queue.stream(), plan, to.data, to.dtype, from.data, from.dtype);
}

void run_one_by_one(const KernelCall& call, const Program& program) {
  const Places places = places_of(program);
  const Shape& shape = call.outputs[0].shape;
  const std::size_t widest = sizeof(double);
  const std::size_t slot =
      (static_cast<std::size_t>(shape.size()) * widest + k_alignment - 1) / k_alignment * k_alignment;
  const Workspace scratch(call.queue, slot * places.slots);
  std::vector<TensorView> values(call.inputs.begin(), call.inputs.end());
  for (const Call& one : program.calls) {
    const std::size_t value = values.size();
    TensorView result{.shape = shape, .strides = contiguous_strides(shape), .size = shape.size(), .dtype = one.dtype};
    if (places.output[value])
      result = call.outputs[*places.output[value]];
    else
      result.data = scratch.as<std::byte>() + slot * places.slot[value];
    std::vector<TensorView> operands;
    for (const Number operand : one.operands)
      operands.push_back(values[operand]);
    const Kernel kernel = one.op->kernels[DeviceKind::gpu];
    if (kernel != nullptr)
      kernel(
          {.op = *one.op,
           .queue = call.queue,
           .inputs = operands,
           .outputs = {&result, 1},
           .attributes = one.attributes});
    else
      move_on_gpu(call, operands[0], result);
    values.push_back(result);
  }
  // Values that were in the way, and those that are named twice.
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (values[program.outputs[i]].data != call.outputs[i].data)
      move_on_gpu(call, values[program.outputs[i]], call.outputs[i]);
  }
}

}  // namespace sluice::fused
