#include <algorithm>

#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/call_record.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/kernel_task.h>
#include <sluice/operator/detail/raised_versions.h>
#include <sluice/operator/gather/kernels.h>

namespace sluice::detail {

namespace {

bool takes_as_it_lies(const Operator& op, MemoryOrder order, std::size_t i, const NDArray& input) {
  const ArrayObject& object = *input.object();
  if (has(op.shape_inputs, i))
    return true;
  const auto takes_strides = [&] {
    return has(op.strided_inputs, i) && !runs_backwards(object) &&
           (op.takes_strides == nullptr || op.takes_strides(i, object.shape, object.strides));
  };
  if (op.order != nullptr && order != MemoryOrder::row_major) [[unlikely]]
    return is_in_order(object.shape, object.strides, order) || (op.takes_strides != nullptr && takes_strides());
  return object.contiguous || takes_strides();
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

// What reads no more than that takes less time than a task.
bool reads_little(std::span<const NDArray> inputs) {
  std::int64_t elements = 0;
  for (const NDArray& input : inputs)
    elements += input.object()->size;
  return elements <= k_short_size;
}

bool is_short(const Call& call, std::span<const NDArray> inputs, const Arrays& outputs, Device device) {
  const bool elementwise = call.op.elementwise;
  if (!(elementwise || call.op.prompt) || !device.is_cpu() || !call.destinations.empty() || outputs.size() != 1)
    return false;
  const ArrayObject& output = *outputs[0].object();
  return output.size > 0 && output.size <= k_short_size && output.buffer->fresh() &&
         inputs.size() <= AtOnce::k_most_reads && (elementwise || reads_little(inputs));
}

// True if the kernel has run, where the call was made. Only of arrays that are of one region each.
bool ran_at_once(
    const Call& call, Kernel kernel, std::span<const NDArray> inputs, const NDArray& output, Engine& engine) {
  VarCore* reads[AtOnce::k_most_reads];
  boost::container::static_vector<TensorView, AtOnce::k_most_reads> in;
  bool is_wide = output.object()->dtype == float64;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ArrayObject& input = *inputs[i].object();
    if (input.buffer->regions().size() != 1)
      return false;
    reads[i] = input.buffer->var().core();
    is_wide = is_wide || input.dtype == float64;
    add_view(in, input);
  }
  boost::container::static_vector<TensorView, 1> out;
  add_view(out, *output.object());
  VarCore* const made = output.object()->buffer->var().core();
  const AtOnce what{
      .name = call.op.name,
      .site = call.site,
      .reads = {reads, inputs.size()},
      .makes = {&made, 1},
      .flush_denormals = !is_wide};
  return EngineAccess::run_at_once(engine, what, [&](Queue queue) {
    kernel({call.op, queue, in, out, call.attributes, call.random});
  });
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

void KernelInputs::replace(const Call& call, MemoryOrder order, Engine& engine, std::size_t i) {
  if (takes_as_it_lies(call.op, order, i, call.inputs[i]))
    return;
  if (replaced_.empty()) {
    replaced_.assign(call.inputs.begin(), call.inputs.end());
    arrays = replaced_;
  }
  const ArrayObject& input = *call.inputs[i].object();
  replaced_[i] = new_array(
      engine, {input.shape, input.dtype, input.device}, call.op.order != nullptr ? order : MemoryOrder::row_major);
  push_copy(call.inputs[i], replaced_[i], call.site, CopyTo::made);
  if (has(call.op.mutated_inputs, i))
    copied_mutables.push_back(i);
}

namespace {

NDArray new_output(const Call& call, const ArraySpec& spec, MemoryOrder order, Engine& engine) {
  if (order != MemoryOrder::row_major) [[unlikely]]
    return new_array(engine, spec, order);
  return call.inputs.empty() ? make_empty(engine, spec.shape, {.dtype = spec.dtype, .device = spec.device})
                             : make_beside(engine, *call.inputs[0].object(), spec.shape, spec.dtype);
}

// What takes or puts entries may be a part of what the program called, of which errors of a GPU's kernels then speak,
// as those of a CPU do.
const char* asked_for(const Operator& op, const Attributes& attributes) noexcept {
  if (attributes.type() != &attribute_type<GatherAttributes>) [[likely]]
    return op.name;
  const char* const asked = attributes.as<GatherAttributes>().asked;
  return asked != nullptr ? asked : op.name;
}

// Of memory that others know.
void raise_versions(
    const Call& call, std::span<const NDArray> inputs, const Arrays& outputs, RaisedVersions& versions) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (has(call.op.mutated_inputs, i) && !has(call.op.shape_inputs, i))
      versions.raise(*inputs[i].object()->buffer);
  }
  for (std::size_t i = 0; i < outputs.size() && !call.destinations.empty(); ++i)
    versions.raise(*outputs[i].object()->buffer);
}

}  // namespace

Arrays kernel_outputs(const Call& call, const Specs& specs, MemoryOrder order, Engine& engine) {
  Arrays outputs;
  if (call.destinations.empty()) [[likely]] {
    for (const ArraySpec& spec : specs)
      outputs.push_back(new_output(call, spec, order, engine));
    return outputs;
  }
  // What a destination must not overlap; with room, so that runs of plans take nothing from the heap.
  boost::container::small_vector<NDArray, 12> touched(call.inputs.begin(), call.inputs.end());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool direct = lies_so(call, order, call.destinations[i]) &&
                        is_direct(call.op, i, call.destinations[i], specs[i], order, touched);
    outputs.push_back(direct ? call.destinations[i] : new_output(call, specs[i], order, engine));
    if (direct)
      touched.push_back(call.destinations[i]);
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
  if (is_short(call, inputs, outputs, device) && ran_at_once(call, kernel, inputs, outputs[0], engine)) {
    outputs[0].object()->buffer->begin_versions();
    return;
  }
  const Operator& op = call.op;
  const bool writes_nothing =
      op.mutated_inputs == k_none &&
      std::all_of(outputs.begin(), outputs.end(), [](const NDArray& output) { return output.object()->size == 0; });
  if (writes_nothing && !outputs.empty())
    return;
  Task task;  // not from a list: that would clear the room for accesses too
  task.name = TaskName::lasting(asked_for(op, call.attributes));
  task.device = device;
  if (device.is_cpu())
    task.denormals = denormals_of(inputs, outputs);
  task.capturable = op.capturable;
  if (engine.tracing()) [[unlikely]]
    task.bytes = bytes_moved(op, inputs, outputs);
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
  }
  for (const NDArray& output : outputs) {
    const ArrayObject& object = *output.object();
    const bool is_new = call.destinations.empty();  // then all of it is written, and nobody reads it or knows it yet
    add_access(task.access, object, is_new ? AccessMode::out : write_mode(output));
    add_view(record.outputs, object);
    if (is_new)
      object.buffer->begin_versions();
  }
  const auto push = [&] { engine.push(task, std::move(body), call.site); };
  if (call.destinations.empty() && op.mutated_inputs == k_none) [[likely]] {
    push();
    return;
  }
  RaisedVersions versions;
  raise_versions(call, inputs, outputs, versions);
  push();
  versions.pushed();
}

}  // namespace sluice::detail
