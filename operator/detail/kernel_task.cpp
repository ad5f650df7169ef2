#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/call_record.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/kernel_task.h>
#include <sluice/operator/library/team.h>

namespace sluice::detail {

namespace {

bool takes_as_it_lies(const Operator& op, MemoryOrder order, std::size_t i, const NDArray& input) {
  const ArrayObject& object = *input.object();
  if (has(op.shape_inputs, i))
    return true;
  if (op.order != nullptr && order != MemoryOrder::row_major) [[unlikely]]
    return is_in_order(object.shape, object.strides, order);
  if (object.contiguous)
    return true;
  return has(op.strided_inputs, i) &&
         (op.takes_strides == nullptr || op.takes_strides(i, object.shape, object.strides));
}

// Arithmetic in float64 is IEEE 754's to the last denormal, as on a GPU.
Denormals denormals_of(std::span<const NDArray> inputs, const Arrays& outputs) {
  const auto wide = [](const NDArray& array) { return array.object()->dtype == float64; };
  return std::any_of(inputs.begin(), inputs.end(), wide) || std::any_of(outputs.begin(), outputs.end(), wide)
             ? Denormals::keep
             : Denormals::flush;
}

// What is broadcast lies in memory once.
std::uint64_t bytes_of(const NDArray& array) {
  std::uint64_t bytes = size_of(array.dtype());
  for (int axis = 0; axis < array.ndim(); ++axis)
    bytes *= array.strides()[axis] == 0 ? 1 : static_cast<std::uint64_t>(array.shape()[axis]);
  return bytes;
}

std::uint64_t bytes_moved(const Operator& op, std::span<const NDArray> inputs, const Arrays& outputs) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!has(op.shape_inputs, i))
      bytes += (has(op.mutated_inputs, i) ? 2 : 1) * bytes_of(inputs[i]);
  }
  for (const NDArray& output : outputs)
    bytes += bytes_of(output);
  return bytes;
}

NDArray new_array(Engine& engine, const ArraySpec& spec, MemoryOrder order) {
  NDArray packed = make_empty(engine, spec.shape, {.dtype = spec.dtype, .device = spec.device});
  if (order == MemoryOrder::row_major) [[likely]]
    return packed;
  return make_view(packed, spec.shape, ordered_strides(spec.shape, order), 0);
}

// A destination of an operator that wants an order has it.
bool lies_so(const Call& call, MemoryOrder order, const NDArray& destination) {
  if (call.op.order == nullptr || order == MemoryOrder::row_major)
    return true;
  const ArrayObject& object = *destination.object();
  return is_in_order(object.shape, object.strides, order);
}

}  // namespace

MemoryOrder order_of(const Call& call, Device device) {
  if (!device.is_gpu())
    return MemoryOrder::row_major;
  if (call.op.order != nullptr)
    return call.op.order(call.inputs, call.attributes);
  // What is computed element by element keeps the order, so that layers do not repack what lies between them.
  if (!call.op.elementwise || !call.op.strided_outputs)
    return MemoryOrder::row_major;
  for (const NDArray& input : call.inputs) {
    const ArrayObject& object = *input.object();
    if (!object.contiguous && order_of(object.shape, object.strides) == MemoryOrder::channels_last)
      return MemoryOrder::channels_last;
  }
  return MemoryOrder::row_major;
}

KernelInputs::KernelInputs(const Call& call, MemoryOrder order, Engine& engine) : arrays(call.inputs) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!takes_as_it_lies(call.op, order, i, call.inputs[i])) [[unlikely]]
      replace(call, order, engine, i);
  }
}

void KernelInputs::replace(const Call& call, MemoryOrder order, Engine& engine, std::size_t i) {
  if (replaced_.empty()) {
    replaced_.assign(call.inputs.begin(), call.inputs.end());
    arrays = replaced_;
  }
  const ArrayObject& input = *call.inputs[i].object();
  replaced_[i] = new_array(
      engine, {input.shape, input.dtype, input.device}, call.op.order != nullptr ? order : MemoryOrder::row_major);
  push_copy(call.inputs[i], replaced_[i], call.site);
  if (has(call.op.mutated_inputs, i))
    copied_mutables.push_back(i);
}

Arrays kernel_outputs(const Call& call, const Specs& specs, MemoryOrder order, Engine& engine) {
  Arrays outputs;
  Arrays touched;  // what a destination must not overlap
  if (!call.destinations.empty())
    touched.assign(call.inputs.begin(), call.inputs.end());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!call.destinations.empty() && lies_so(call, order, call.destinations[i]) &&
        is_direct(call.op, call.destinations[i], specs[i], touched)) {
      outputs.push_back(call.destinations[i]);
      touched.push_back(call.destinations[i]);
    } else {
      outputs.push_back(new_array(engine, specs[i], order));
    }
  }
  return outputs;
}

void push_kernel(
    const Call& call,
    Kernel kernel,
    std::span<const NDArray> inputs,
    const Arrays& outputs,
    Device device,
    Engine& engine) {
  const Operator& op = call.op;
  const bool writes_nothing =
      op.mutated_inputs == k_none &&
      std::all_of(outputs.begin(), outputs.end(), [](const NDArray& output) { return output.object()->size == 0; });
  if (writes_nothing && !outputs.empty())
    return;
  Task task;  // not from a list: that would clear the room for accesses too
  task.name = TaskName::lasting(op.name);
  task.device = device;
  task.denormals = denormals_of(inputs, outputs);
  task.capturable = op.capturable;
  if (engine.tracing()) [[unlikely]]
    task.bytes = bytes_moved(op, inputs, outputs);
  if (op.library_team && device.is_cpu() && may_use_team(outputs[0].dtype()))
    task.threads = engine.workers();
  CallBody body(CallRecord::take());
  CallRecord& record = body.record();
  record.op = &op;
  record.kernel = kernel;
  if (!call.attributes.empty())
    record.attributes = call.attributes;
  record.random = call.random;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (has(op.shape_inputs, i)) {  // nothing to wait for
      const NDArray& shape = inputs[i];
      record.inputs.push_back({nullptr, shape.shape(), shape.strides(), shape.size(), shape.dtype()});
      continue;
    }
    const bool mutated = has(op.mutated_inputs, i);
    add_access(task.access, *inputs[i].object(), mutated ? AccessMode::write : AccessMode::read);
    add_view(record.inputs, *inputs[i].object());
    if (mutated)
      inputs[i].object()->buffer->raise_version();
  }
  for (const NDArray& output : outputs) {
    // New memory is all written, and nobody reads it.
    const AccessMode mode = call.destinations.empty() ? AccessMode::out : write_mode(output, inputs);
    add_access(task.access, *output.object(), mode);
    add_view(record.outputs, *output.object());
    output.object()->buffer->raise_version();
  }
  engine.push(task, std::move(body), call.site);
}

}  // namespace sluice::detail
