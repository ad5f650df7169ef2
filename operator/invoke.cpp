#include <algorithm>
#include <optional>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/autocast.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/given_kernels.h>
#include <sluice/operator/detail/kernel_task.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/observer.h>
#include <sluice/operator/stored_types.h>

namespace sluice {

namespace {

using detail::Call;
using detail::has;
using detail::OperatorNode;

// Of functions that a program may have written itself.
void check_count(const Operator& op, const char* what, std::size_t results) {
  require<ValueError>(op.outputs < 0 || results == static_cast<std::size_t>(op.outputs), [&] {
    return message(op.name, ": ", what, " ", results, " results, the operator has ", op.outputs);
  });
}

// The node is made before anything is written: an input that the call overwrites is then known to be stale.
autograd::NodeRef new_node(const Call& call) {
  return autograd::NodeRef(new OperatorNode(call.op, call.inputs, call.attributes, call.random, call.site));
}
inline autograd::NodeRef make_node(const Call& call) {
  return call.recorded ? new_node(call) : autograd::NodeRef();
}

// Results of a recorded call name its node.
void put_on_node(const autograd::NodeRef& node, std::span<const NDArray> results) {
  static_cast<OperatorNode*>(node.get())->keep_outputs(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_floating(results[i].dtype()))
      autograd::set_entry(results[i], node, static_cast<int>(i));
  }
}

inline void put_on_tape(const autograd::NodeRef& node, std::span<const NDArray> results) {
  if (node)
    put_on_node(node, results);
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
    detail::located(call.site, [&] {
      detail::check_writable(call.op.name, destination);
      detail::check_in_place(call.op.name, destination, call.recorded);
    });
  }
}

// Results that could not be written where the caller wants them are copied there, and take their place on the tape.
void deliver(const Call& call, Arrays& results, const autograd::NodeRef& node) {
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
  results.assign(call.destinations.begin(), call.destinations.end());
}

// To who takes the thread's calls. The node is made before, as for what runs.
Arrays hand_over(CallSink& sink, const Call& call, const Specs& specs, const Geometry* view = nullptr) {
  for (std::size_t i = 0; i < call.destinations.size(); ++i)
    detail::check_takes(call.op.name, call.destinations[i], specs[i]);
  const autograd::NodeRef node = make_node(call);
  Arrays results = detail::offer(
      sink,
      {.op = call.op,
       .inputs = call.inputs,
       .attributes = call.attributes,
       .outputs = specs,
       .view = view,
       .site = call.site,
       .destinations = call.destinations,
       .recorded = call.recorded});
  if (call.destinations.empty())
    put_on_tape(node, results);
  else
    deliver(call, results, node);
  return results;
}

Arrays invoke_view(const Call& call) {
  require<ValueError>(call.destinations.empty(), [&] { return message(call.op.name, ": a view has no destination"); });
  const NDArray& input = call.inputs[0];
  const Shape* const like = call.inputs.size() > 1 ? &call.inputs[1].object()->shape : nullptr;
  const Geometry view = call.op.view(call.op, detail::geometry_of(input), like, call.attributes);
  if (CallSink* const sink = detail::sink_here(); sink != nullptr) [[unlikely]]
    return hand_over(*sink, call, {{view.shape, input.dtype(), input.device()}}, &view);
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
  Arrays results = op.composition(call.inputs, call.attributes, call.site);
  check_count(op, "its composition made", results.size());
  return results;
}

Arrays composed(const Call& call, const autograd::NodeRef& node) {
  Arrays results = compose(call);
  put_on_tape(node, results);
  return results;
}

// Results of other calls, to where the caller wants this one's.
void deliver_made(Call& call, Arrays& results, const autograd::NodeRef& node) {
  call.recorded = call.recorded || std::any_of(results.begin(), results.end(), autograd::on_tape);
  check_destinations(call, results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    detail::check_takes(call.op.name, call.destinations[i], detail::spec_of(results[i]));
  deliver(call, results, node);
}

Arrays composed_into(Call& call, const autograd::NodeRef& node) {
  Arrays results = compose(call);
  deliver_made(call, results, node);
  return results;
}

Arrays invoke_reckoned(Call& call) {
  const InputsEngine engine(call);
  Arrays results = detail::reckon(call.op, call.inputs, call.attributes, call.site);
  if (!call.destinations.empty())
    deliver_made(call, results, {});
  return results;
}

// As one call where nothing of it must be on the tape, or all of it as one node.
bool is_taken_whole(const Call& call) {
  return detail::sink_here() != nullptr && call.op.infer != nullptr &&
         (call.op.gradient != nullptr || !autograd::is_recording());
}

// `specs`: what inference says of the results, of an operator that has one.
Arrays invoke_composition(Call& call, const Specs& specs) {
  const InputsEngine engine(call);
  if (is_taken_whole(call)) [[unlikely]] {
    check_destinations(call, specs.size());
    return hand_over(*detail::sink_here(), call, specs);
  }
  const autograd::NodeRef node = make_node(call);
  return call.destinations.empty() ? composed(call, node) : composed_into(call, node);
}

// Of what runs: there is memory, and results fit where they go.
void check_data(const Call& call, const Specs& specs) {
  const Operator& op = call.op;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const detail::ArrayObject& input = *call.inputs[i].object();
    if (input.buffer == nullptr && !has(op.shape_inputs, i)) [[unlikely]]
      detail::refuse_without_data(op.name, input);
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
    detail::located(call.site, [&] {
      detail::check_writable(op.name, call.inputs[i]);
      detail::check_in_place(op.name, call.inputs[i], false);
    });
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
    const MemoryOrder order = op.order != nullptr ? detail::order_of(call, spec.device) : MemoryOrder::row_major;
    const bool arrives = !call.inputs.empty() && call.inputs[0].device() != spec.device;
    outputs.push_back(
        is_direct ? to : empty(spec.shape, {.dtype = spec.dtype, .device = spec.device, .copied_into = arrives}));
    if (order != MemoryOrder::row_major && !is_direct)
      outputs.back() = detail::make_view(outputs.back(), spec.shape, detail::ordered_strides(spec.shape, order), 0);
  }
  const autograd::NodeRef node = make_node(call);
  op.issue({op, call.inputs, outputs, call.attributes, call.site, call.destinations.empty()});
  if (call.destinations.empty())
    put_on_tape(node, outputs);
  else
    deliver(call, outputs, node);
  return outputs;
}

Arrays invoke_kernel(Call& call, Kernel kernel, const Specs& specs, Device device) {
  const Operator& op = call.op;
  if (!call.plain || !call.destinations.empty())
    check_data(call, specs);
  Engine& engine = !call.inputs.empty() ? call.inputs[0].engine() : Engine::current();
  const MemoryOrder order = detail::order_of(call, device);
  const detail::KernelInputs inputs(call, order, engine);
  Arrays outputs = detail::kernel_outputs(call, specs, order, engine);
  const bool brings_state = op.state_input >= 0 && call.inputs.size() > static_cast<std::size_t>(op.state_input);
  if (op.random != nullptr && !brings_state)
    call.random = engine.take_random(op.random(specs, call.attributes));
  const autograd::NodeRef node = make_node(call);
  detail::push_kernel(call, kernel, inputs.arrays, outputs, device, engine);
  for (const std::size_t i : inputs.copied_mutables)
    detail::push_copy(inputs.arrays[i], call.inputs[i], call.site);
  if (call.destinations.empty()) [[likely]]
    put_on_tape(node, outputs);
  else
    deliver(call, outputs, node);
  return outputs;
}

// A kernel that was given from outside has no say in the gradient: where the composition has one it stays in place.
bool is_composed_for_gradient(const Call& call) {
  return call.op.composition != nullptr && call.op.gradient == nullptr && autograd::is_recording() &&
         detail::is_recorded(call.inputs);
}

bool has_attributes(const Operator& op, const Attributes& attributes) noexcept {
  return attributes.type() == op.attributes ||
         (attributes.empty() && (op.optional_attributes || op.attributes == &attribute_type<NoAttributes>));
}

// Of types that there are: attributes and functions of a program say them.
void check_types(const Operator& op, const Specs& specs) {
  for (const ArraySpec& spec : specs)
    detail::check_known(op.name, spec.dtype);
}

// Results are where the inputs are, unless the operator pushes its tasks itself.
Specs inferred(const Call& call) {
  const detail::InputSpecs input_specs(call.inputs);
  Specs specs = call.op.infer(call.op, input_specs.all(), call.attributes);
  check_count(call.op, "inference says", specs.size());
  check_types(call.op, specs);
  require<ValueError>(!call.inputs.empty() || !specs.empty(), [&] {
    return message(call.op.name, ": neither inputs nor results say on which device it runs");
  });
  if (!call.inputs.empty() && call.op.issue == nullptr) {
    for (ArraySpec& spec : specs)
      spec.device = call.inputs[0].object()->device;
  }
  return specs;
}

// One result that is as the inputs are, but for its type.
Specs as_inputs(const Call& call, DType dtype) {
  const detail::ArrayObject& input = *call.inputs[0].object();
  Specs specs;
  specs.emplace_back(input.shape, dtype, input.device);
  return specs;
}

// A trace does not take an operator that counts its axes for a program that depends on extents.
bool normalised(const Operator& op, const RawCall& call, NormalCall& normal) {
  if (detail::sink_here() == nullptr) [[likely]]
    return op.normalise(call, normal);
  const detail::UnseenShapes unseen;
  return op.normalise(call, normal);
}

Arrays run(
    const Operator& op,
    std::span<const NDArray> inputs,
    const Attributes& attributes,
    SourceLocation site,
    std::span<const NDArray> destinations) {
  bool plain = detail::are_plain(op, inputs);
  if (!plain) [[unlikely]]
    detail::check_inputs(op, inputs);
  if (!has_attributes(op, attributes)) [[unlikely]]
    detail::check_attributes(op, attributes);
  DType dtype = DType::float32;
  const bool alike = plain && op.alike != nullptr && detail::are_alike(inputs, dtype) && is_computed(dtype) &&
                     op.alike(inputs.size(), attributes, dtype);
  std::optional<NormalCall> normal;  // of few calls
  const Attributes* settings = &attributes;
  if (!alike && op.normalise != nullptr && normalised(op, {op, inputs, attributes, site}, normal.emplace())) {
    inputs = normal->inputs;
    settings = &normal->attributes;
    plain = false;
  }
  const bool recorded = op.gradient != nullptr && autograd::is_recording() && detail::is_recorded(inputs);
  Call call{op, inputs, *settings, site, destinations, recorded, plain, {}};
  if (op.view != nullptr)
    return invoke_view(call);
  if (op.composition != nullptr && op.kernels.empty() && !detail::was_given_kernels(op))
    // One that has kernels in other builds refuses in the same words.
    return invoke_composition(call, op.infer == nullptr ? Specs() : infer(op, detail::specs_of(inputs), *settings));
  if (!alike && detail::is_reckoned(op, inputs)) [[unlikely]]
    return invoke_reckoned(call);

  const Specs specs = alike ? as_inputs(call, dtype) : inferred(call);
  const Device device = !inputs.empty() ? inputs[0].object()->device : specs.at(0).device;
  if (!destinations.empty())
    check_destinations(call, specs.size());
  check_mutables(call);
  Kernel kernel = op.kernels[device.kind];
  if (kernel == nullptr && !is_composed_for_gradient(call)) [[unlikely]]
    kernel = detail::given_kernel(op, device.kind);
  if (kernel != nullptr || op.issue != nullptr) {
    if (CallSink* const sink = detail::sink_here(); sink != nullptr) [[unlikely]]
      return hand_over(*sink, call, specs);
    return op.issue != nullptr ? invoke_issue(call, specs) : invoke_kernel(call, kernel, specs, device);
  }
  if (op.composition != nullptr)
    return invoke_composition(call, specs);
  throw UnsupportedError([&] {
    std::string types;
    for (const NDArray& input : inputs)
      types += message(types.empty() ? "" : ", ", input.dtype());
    return message(op.name, ": no kernel for arrays on ", device, " (", types, ")");
  }());
}

// A call in a scope of amp::autocast(): of other types perhaps, and what it is composed of is left alone.
Arrays run_cast(
    const Operator& op,
    std::span<const NDArray> inputs,
    const Attributes& attributes,
    SourceLocation site,
    std::span<const NDArray> destinations) {
  const detail::AutocastState* const state = detail::autocast_here();
  const detail::NoAutocast inner;
  Arrays cast;
  if (state != nullptr && destinations.empty() && detail::autocast_widens(op, inputs, attributes, *state))
    return run(op, inputs, op.widened(attributes), site, destinations);
  if (state != nullptr && destinations.empty())
    inputs = detail::autocast_inputs(op, inputs, attributes, *state, cast, site);
  return run(op, inputs, attributes, site, destinations);
}

}  // namespace

Arrays invoke(
    const Operator& op,
    std::span<const NDArray> inputs,
    Attributes attributes,
    SourceLocation site,
    std::span<const NDArray> destinations) {
  return detail::located(site, [&] {
    const detail::Observed observed;
    Arrays results = detail::t_autocast != nullptr ? run_cast(op, inputs, attributes, site, destinations)
                                                   : run(op, inputs, attributes, site, destinations);
    observed.tell(op, inputs, results);
    return results;
  });
}

}  // namespace sluice
