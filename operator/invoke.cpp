#include <algorithm>
#include <optional>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/call_record.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/library/team.h>

namespace sluice {

namespace {

using detail::OperatorNode;

bool has(Mask mask, std::size_t i) noexcept {
  return (mask >> std::min<std::size_t>(i, 31) & 1) != 0;
}

// One call on its way through invoke().
struct Call {
  const Operator& op;
  std::span<const NDArray> inputs;
  const Attributes& attributes;
  SourceLocation site;
  std::span<const NDArray> destinations;
  bool recorded = false;
  RandomBlock random;
};

// The node is made before anything is written: an input that the call overwrites is then known to be stale.
autograd::NodeRef make_node(const Call& call) {
  if (!call.recorded)
    return {};
  return autograd::NodeRef(new OperatorNode(call.op, call.inputs, call.attributes, call.random, call.site));
}

// Results of a recorded call name its node.
void put_on_tape(const autograd::NodeRef& node, std::span<const NDArray> results) {
  if (!node)
    return;
  static_cast<OperatorNode*>(node.get())->keep_outputs(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_floating(results[i].dtype()))
      autograd::set_entry(results[i], node, static_cast<int>(i));
  }
}

void check_destinations(const Call& call, std::size_t outputs) {
  if (call.destinations.empty())
    return;
  require<ValueError>(call.destinations.size() == outputs, [&] {
    return message(call.op.name, ": has ", outputs, " outputs, was given ", call.destinations.size(), " destinations");
  });
  for (const NDArray& destination : call.destinations) {
    require<ValueError>(
        destination.defined(), [&] { return message(call.op.name, ": a destination is an undefined NDArray"); });
    detail::check_writable(call.op.name, destination);
    detail::check_in_place(call.op.name, destination, call.recorded);
  }
}

// Results that could not be written where the caller wants them are copied there, and take their place on the tape.
Arrays deliver(const Call& call, const Arrays& results, const autograd::NodeRef& node) {
  for (std::size_t i = 0; i < call.destinations.size(); ++i) {
    const NDArray& destination = call.destinations[i];
    if (!results[i].same(destination))
      detail::push_copy(results[i], destination, call.site);
    if (node || !autograd::is_recording())
      continue;
    const autograd::Entry entry = results[i].same(destination) ? autograd::Entry{} : autograd::entry_of(results[i]);
    if (entry.node || autograd::on_tape(destination))
      autograd::set_entry(destination, entry.node, entry.index);
  }
  put_on_tape(node, call.destinations);
  return Arrays(call.destinations.begin(), call.destinations.end());
}

// To who takes the thread's calls. The node is made before, as for what runs.
Arrays hand_over(CallSink& sink, const Call& call, const Specs& specs, const Geometry* view = nullptr) {
  for (std::size_t i = 0; i < call.destinations.size(); ++i)
    detail::check_takes(call.op.name, call.destinations[i], specs[i]);
  const autograd::NodeRef node = make_node(call);
  const Arrays results = detail::offer(
      sink,
      {.op = call.op,
       .inputs = call.inputs,
       .attributes = call.attributes,
       .outputs = specs,
       .view = view,
       .site = call.site,
       .destinations = call.destinations,
       .recorded = call.recorded});
  if (!call.destinations.empty())
    return deliver(call, results, node);
  put_on_tape(node, results);
  return results;
}

Arrays invoke_view(const Call& call) {
  require<ValueError>(call.destinations.empty(), [&] { return message(call.op.name, ": a view has no destination"); });
  const NDArray& input = call.inputs[0];
  const Geometry view = call.op.view(call.op, detail::geometry_of(input), call.attributes);
  if (detail::t_sink != nullptr) [[unlikely]]
    return hand_over(*detail::t_sink, call, {{view.shape, input.dtype(), input.device()}}, &view);
  const Arrays results{detail::make_view(input, view.shape, view.strides, view.offset)};
  put_on_tape(make_node(call), results);
  return results;
}

// New arrays belong to the engine of the inputs, also those that are made on the way.
struct InputsEngine {
  explicit InputsEngine(const Call& call) {
    if (!call.inputs.empty())
      scope.emplace(call.inputs[0].engine());
  }
  std::optional<EngineScope> scope;
};

Arrays compose(const Call& call) {
  const Operator& op = call.op;
  // A composition with a gradient of its own is one node.
  const autograd::ModeScope mode(autograd::is_recording() && op.gradient == nullptr, autograd::is_training());
  return op.composition(call.inputs, call.attributes, call.site);
}

Arrays composed(const Call& call, const autograd::NodeRef& node) {
  Arrays results = compose(call);
  put_on_tape(node, results);
  return results;
}

// As one call where nothing of it must be on the tape, or all of it as one node.
bool is_taken_whole(const Call& call) {
  return detail::t_sink != nullptr && call.op.infer != nullptr &&
         (call.op.gradient != nullptr || !autograd::is_recording());
}

Arrays invoke_composition(Call& call) {
  const InputsEngine engine(call);
  if (is_taken_whole(call)) [[unlikely]] {
    const Specs specs = infer(call.op, detail::specs_of(call.inputs), call.attributes);
    check_destinations(call, specs.size());
    return hand_over(*detail::t_sink, call, specs);
  }
  const autograd::NodeRef node = make_node(call);
  if (call.destinations.empty())
    return composed(call, node);
  const Arrays results = compose(call);
  call.recorded = call.recorded || std::any_of(results.begin(), results.end(), autograd::on_tape);
  check_destinations(call, results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    detail::check_takes(call.op.name, call.destinations[i], detail::spec_of(results[i]));
  return deliver(call, results, node);
}

bool takes_as_it_lies(const Operator& op, std::size_t i, const NDArray& input) {
  const detail::ArrayObject& object = *input.object();
  if (object.contiguous)
    return true;
  return has(op.strided_inputs, i) &&
         (op.takes_strides == nullptr || op.takes_strides(i, object.shape, object.strides));
}

// Inputs as the kernel takes them: the call's own, as most calls have them, or partly copies. Of those that it also
// writes the copies must come back, so they are noted.
class KernelInputs {
 public:
  KernelInputs(const Call& call, Engine& engine) : arrays(call.inputs) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!takes_as_it_lies(call.op, i, call.inputs[i])) [[unlikely]]
        replace(call, engine, i);
    }
  }
  KernelInputs(const KernelInputs&) = delete;
  KernelInputs& operator=(const KernelInputs&) = delete;

  std::span<const NDArray> arrays;
  boost::container::small_vector<std::size_t, 2> copied_mutables;

 private:
  void replace(const Call& call, Engine& engine, std::size_t i) {
    if (replaced_.empty()) {
      replaced_.assign(call.inputs.begin(), call.inputs.end());
      arrays = replaced_;
    }
    const detail::ArrayObject& input = *call.inputs[i].object();
    replaced_[i] = detail::make_empty(engine, input.shape, {.dtype = input.dtype, .device = input.device});
    detail::push_copy(call.inputs[i], replaced_[i], call.site);
    if (has(call.op.mutated_inputs, i))
      copied_mutables.push_back(i);
  }

  Arrays replaced_;
};

// Where the kernel writes: destinations where it can, otherwise new arrays.
Arrays kernel_outputs(const Call& call, const Specs& specs, Engine& engine) {
  Arrays outputs;
  Arrays touched;  // what a destination must not overlap
  if (!call.destinations.empty())
    touched.assign(call.inputs.begin(), call.inputs.end());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!call.destinations.empty() && detail::is_direct(call.op, call.destinations[i], specs[i], touched)) {
      outputs.push_back(call.destinations[i]);
      touched.push_back(call.destinations[i]);
    } else {
      outputs.push_back(
          detail::make_empty(engine, specs[i].shape, {.dtype = specs[i].dtype, .device = specs[i].device}));
    }
  }
  return outputs;
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
  for (std::size_t i = 0; i < inputs.size(); ++i)
    bytes += (has(op.mutated_inputs, i) ? 2 : 1) * bytes_of(inputs[i]);
  for (const NDArray& output : outputs)
    bytes += bytes_of(output);
  return bytes;
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
  if (op.library_team && device.is_cpu() && detail::may_use_team(outputs[0].dtype()))
    task.threads = engine.workers();
  detail::CallBody body(detail::CallRecord::take());
  detail::CallRecord& record = body.record();
  record.op = &op;
  record.kernel = kernel;
  if (!call.attributes.empty())
    record.attributes = call.attributes;
  record.random = call.random;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool mutated = has(op.mutated_inputs, i);
    detail::add_access(task.access, *inputs[i].object(), mutated ? AccessMode::write : AccessMode::read);
    detail::add_view(record.inputs, *inputs[i].object());
    if (mutated)
      inputs[i].object()->buffer->raise_version();
  }
  for (const NDArray& output : outputs) {
    // New memory is all written, and nobody reads it.
    const AccessMode mode = call.destinations.empty() ? AccessMode::out : detail::write_mode(output, inputs);
    detail::add_access(task.access, *output.object(), mode);
    detail::add_view(record.outputs, *output.object());
    output.object()->buffer->raise_version();
  }
  engine.push(task, std::move(body), call.site);
}

// Of what runs: there is memory, and results fit where they go.
void check_data(const Call& call, const Specs& specs) {
  const Operator& op = call.op;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!has(op.shape_inputs, i))
      detail::with_data(op.name, *call.inputs[i].object());
  }
  for (std::size_t i = 0; i < call.destinations.size(); ++i) {
    detail::with_data(op.name, *call.destinations[i].object());
    detail::check_takes(op.name, call.destinations[i], specs[i]);
  }
}

// Inputs that the call writes may be written.
void check_mutables(const Call& call) {
  const Operator& op = call.op;
  if (op.mutated_inputs == k_none && op.mutates == nullptr)
    return;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (op.mutates != nullptr ? !op.mutates(i, call.inputs.size(), call.attributes) : !has(op.mutated_inputs, i))
      continue;
    detail::check_writable(op.name, call.inputs[i]);
    detail::check_in_place(op.name, call.inputs[i], false);
  }
}

// Outputs are written as they lie; where they overlap inputs is the operator's own care.
Arrays invoke_issue(const Call& call, const Specs& specs) {
  const Operator& op = call.op;
  const InputsEngine engine(call);
  check_data(call, specs);
  Arrays outputs;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const ArraySpec& spec = specs[i];
    const NDArray to = call.destinations.empty() ? NDArray() : call.destinations[i];
    const bool is_direct = to.defined() && to.dtype() == spec.dtype && to.device() == spec.device;
    const bool arrives = !call.inputs.empty() && call.inputs[0].device() != spec.device;
    outputs.push_back(
        is_direct ? to : empty(spec.shape, {.dtype = spec.dtype, .device = spec.device, .copied_into = arrives}));
  }
  const autograd::NodeRef node = make_node(call);
  op.issue({op, call.inputs, outputs, call.attributes, call.site});
  if (!call.destinations.empty())
    return deliver(call, outputs, node);
  put_on_tape(node, outputs);
  return outputs;
}

Arrays invoke_kernel(Call& call, Kernel kernel, const Specs& specs, Device device) {
  const Operator& op = call.op;
  check_data(call, specs);
  Engine& engine = !call.inputs.empty() ? call.inputs[0].engine() : Engine::current();
  const KernelInputs inputs(call, engine);
  Arrays outputs = kernel_outputs(call, specs, engine);
  if (op.random != nullptr)
    call.random = engine.take_random(op.random(specs, call.attributes));
  const autograd::NodeRef node = make_node(call);
  push_kernel(call, kernel, inputs.arrays, outputs, device, engine);
  for (const std::size_t i : inputs.copied_mutables)
    detail::push_copy(inputs.arrays[i], call.inputs[i], call.site);
  if (call.destinations.empty()) [[likely]]
    put_on_tape(node, outputs);
  else
    outputs = deliver(call, outputs, node);
  return outputs;
}

Arrays run(
    const Operator& op,
    std::span<const NDArray> inputs,
    const Attributes& attributes,
    SourceLocation site,
    std::span<const NDArray> destinations) {
  detail::check_inputs(op, inputs);
  detail::check_attributes(op, attributes);
  Call call{op, inputs, attributes, site, destinations, detail::is_recorded(op, inputs), {}};
  if (op.view != nullptr)
    return invoke_view(call);
  if (op.cpu == nullptr && op.gpu == nullptr && op.composition != nullptr)
    return invoke_composition(call);

  const Specs input_specs = detail::specs_of(inputs);
  Specs specs = op.infer(op, input_specs, attributes);
  if (!inputs.empty() && op.issue == nullptr) {
    for (ArraySpec& spec : specs)
      spec.device = inputs[0].device();
  }
  check_destinations(call, specs.size());
  check_mutables(call);
  const Device device = !inputs.empty() ? inputs[0].device() : specs.at(0).device;
  const Kernel kernel = op.kernel(device.kind);
  if (kernel != nullptr || op.issue != nullptr) {
    if (detail::t_sink != nullptr) [[unlikely]]
      return hand_over(*detail::t_sink, call, specs);
    return op.issue != nullptr ? invoke_issue(call, specs) : invoke_kernel(call, kernel, specs, device);
  }
  if (op.composition != nullptr)
    return invoke_composition(call);
  throw UnsupportedError([&] {
    std::string types;
    for (const NDArray& input : inputs)
      types += message(types.empty() ? "" : ", ", input.dtype());
    return message(op.name, ": no kernel for ", device.is_gpu() ? "gpu" : "cpu", " arrays (", types, ")");
  }());
}

}  // namespace

Arrays invoke(
    const Operator& op,
    std::span<const NDArray> inputs,
    Attributes attributes,
    SourceLocation site,
    std::span<const NDArray> destinations) {
  return detail::located(site, [&] { return run(op, inputs, attributes, site, destinations); });
}

NDArray invoke_one(
    const Operator& op, std::initializer_list<NDArray> inputs, Attributes attributes, SourceLocation site) {
  Arrays results = invoke(op, std::span(inputs.begin(), inputs.size()), std::move(attributes), site);
  return std::move(results.at(0));
}

}  // namespace sluice
