#include <algorithm>

#include <sluice/engine/origin.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/autocast.h>
#include <sluice/operator/detail/given_kernels.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

// Of such a call invoke() would make calls of other operators: those are what can be planned and captured.
bool is_composed(const OperatorCall& call) {
  const Operator& op = call.op;
  if (op.composition == nullptr || op.issue != nullptr || op.view != nullptr)
    return false;
  const DeviceKind kind = call.inputs.empty() ? call.outputs[0].device.kind : call.inputs[0].device().kind;
  return op.kernels[kind] == nullptr && detail::given_kernel(op, kind) == nullptr;
}

bool is_same_handle(const NDArray& a, const NDArray& b) {
  const sluice::detail::ArrayObject &x = *a.object(), &y = *b.object();
  const bool same_memory = x.buffer == y.buffer && x.offset == y.offset && x.dtype == y.dtype && x.shape == y.shape &&
                           x.strides == y.strides && x.value == y.value;
  return same_memory && x.entry.node.get() == y.entry.node.get() && x.entry.index == y.entry.index;
}

}  // namespace

void Tracer::begin() {
  require<ValueError>(!begun_, [] { return "trace: a Tracer makes one graph; this one was used before"; });
  begun_ = true;
  CallSink* const outer = sluice::detail::sink_here();
  sluice::detail::note_trace(this, outer, outside_ == Outside::captured);
  outer_ = outer;
}

Tracer::PlacesKept::~PlacesKept() {
  for (auto place = tracer_.places_.rbegin(); place != tracer_.places_.rend(); ++place)  // the first one stood there
    place->first.object()->entry = std::move(place->second);
  tracer_.places_.clear();
}

NDArray Tracer::input(const ArraySpec& spec, bool differentiable) {
  require<ValueError>(
      !begun_, [] { return "trace: inputs are made before the program is traced, or by late_input()"; });
  NDArray array = late_input(spec);
  differentiable_.back() = differentiable_.back() && differentiable;
  return array;
}

NDArray Tracer::late_input(const ArraySpec& spec) {
  NDArray array = abstract_array(spec);
  const ValueId id = add({.source = Source::input, .spec = spec});
  abstract_.emplace(abstract_value(array), id);
  inputs_.emplace(id, array);
  graph_.inputs.push_back(id);
  return array;
}

ValueId Tracer::add(Value value, std::optional<ValueId> root) {
  const auto id = static_cast<ValueId>(graph_.values.size());
  value.root = root.value_or(id);
  differentiable_.push_back(value.source == Source::input && is_floating(value.spec.dtype));
  graph_.values.push_back(std::move(value));
  return id;
}

// Two views of one array with memory are two constants of one root.
ValueId Tracer::constant_of(const NDArray& array) {
  const detail::ArrayObject& object = *array.object();
  const bool is_variable = marks_detached_ && autograd::on_tape(array);
  const Place place{object.buffer, object.offset, message(object.dtype, object.shape, object.strides), is_variable};
  if (const auto found = constants_.find(place); found != constants_.end())
    return found->second;
  const bool is_computed = object.entry.node && object.variable == nullptr;  // such a handle keeps the tape
  if (autograd::on_tape(array))
    recorded_.push_back(array);
  const auto known = roots_.find(object.buffer);
  const ValueId id =
      add({.source = Source::constant,
           .spec = {object.shape, object.dtype, object.device},
           .array = is_computed ? array.detach() : array},
          known == roots_.end() ? std::nullopt : std::optional(known->second));
  differentiable_[id] = is_variable;
  constants_.emplace(place, id);
  roots_.emplace(object.buffer, graph_.root(id));
  return id;
}

std::optional<ValueId> Tracer::find(std::uint64_t value) const {
  const auto found = abstract_.find(value);
  return found == abstract_.end() ? std::nullopt : std::optional(found->second);
}

ValueId Tracer::value_of(const NDArray& array, bool shape_only) {
  const detail::ArrayObject& object = *array.object();
  if (const auto found = abstract_.find(abstract_value(array)); found != abstract_.end())
    return found->second;
  if (shape_only)
    return add({.source = Source::shape, .spec = {object.shape, object.dtype, object.device}});
  if (outside_ == Outside::captured && (object.buffer != nullptr || object.value != 0))
    return capture(array);
  require<ValueError>(object.buffer != nullptr, [&] {
    return message("trace: an array of shape ", object.shape, " has no memory and was made outside of what is traced");
  });
  return constant_of(array);
}

ValueId Tracer::capture(const NDArray& array) {
  const auto known =
      std::find_if(captured_.begin(), captured_.end(), [&](const NDArray& one) { return is_same_handle(one, array); });
  if (known != captured_.end())
    return captured_ids_[static_cast<std::size_t>(known - captured_.begin())];
  const ValueId id = add({.source = Source::input, .spec = sluice::detail::spec_of(array)});
  graph_.values[id].spec.value = 0;
  differentiable_[id] = autograd::on_tape(array);
  graph_.inputs.push_back(id);
  captured_.push_back(array);
  captured_ids_.push_back(id);
  return id;
}

// What replays the graph under a tape is to stop where the program did.
ValueId Tracer::operand_of(const NDArray& array, bool shape_only, bool recorded) {
  const ValueId id = value_of(array, shape_only);
  if (!marks_detached_ || !recorded || !differentiable_[id] || shape_only)
    return id;
  if (!autograd::on_tape(array))
    return stopped(id);
  const Standing standing = standing_of(array, id);
  require<UnsupportedError>(outside_ == Outside::constants || standing != Standing::own_node, [&] {
    return message(
        array.object()->entry.node->name(),
        ": has a gradient of its own, an autograd::Node, and cannot be part of a traced body");
  });
  if (standing == Standing::own_node)
    note_own_gradient(*array.object()->entry.node.get());
  return standing == Standing::variable ? stopped(id) : id;
}

void Tracer::note_beyond_calls(const std::string& what) {
  if (beyond_calls_.empty())
    beyond_calls_ = what;
}

void Tracer::note_own_gradient(const autograd::Node& node) {
  has_own_gradients_ = true;
  note_beyond_calls(message(node.name(), " has a gradient of its own (", describe(node.site()), ')'));
}

// The graph's gradients are those of its nodes.
Tracer::Standing Tracer::standing_of(const NDArray& array, ValueId id) const {
  const autograd::Node* const node = array.object()->entry.node.get();
  const bool is_captured = std::find(captured_ids_.begin(), captured_ids_.end(), id) != captured_ids_.end();
  if (is_captured || node->name() == control::k_entries_node ||
      dynamic_cast<const sluice::detail::OperatorNode*>(node) != nullptr)
    return Standing::as_called;
  if (!node->inputs.empty())
    return Standing::own_node;
  // What nothing flows through is a variable: that of an array from outside, or one that the program made.
  const auto input = inputs_.find(id);
  const NDArray& given = input != inputs_.end() ? input->second : graph_.values[id].array;
  return autograd::entry_of(given).node.get() == node ? Standing::as_called : Standing::variable;
}

bool Tracer::stands_as_called(const NDArray& array) {
  return !autograd::on_tape(array) || standing_of(array, value_of(array, false)) == Standing::as_called;
}

ValueId Tracer::stopped(ValueId value) {
  if (const auto known = stopped_ids_.find(value); known != stopped_ids_.end())
    return known->second;
  const ValueId id = add({.spec = graph_.values[value].spec}, graph_.root(value));
  graph_.nodes.push_back({.op = &sluice::detail::k_detach, .inputs = {value}, .results = {{id, true}}});
  if (outside_ == Outside::captured)  // elsewhere replays may write there in place, once nobody else looks
    stopped_ids_.emplace(value, id);
  return id;
}

// Drawn anew whenever the graph runs: the node reads where to begin from memory.
void Tracer::add_random_state(const OperatorCall& call, Node& node) {
  const Operator& op = call.op;
  if (op.random == nullptr || (op.state_input >= 0 && call.inputs.size() > static_cast<std::size_t>(op.state_input)))
    return;
  require<UnsupportedError>(op.state_input == static_cast<int>(call.inputs.size()), [&] {
    return message(op.name, ": takes random numbers that cannot come from memory, so that it cannot be traced");
  });
  const Device device = call.inputs.empty() ? call.outputs[0].device : call.inputs[0].device();
  node.inputs.push_back(add(
      {.source = Source::random, .spec = {{2}, int64, device}, .counters = op.random(call.outputs, call.attributes)}));
}

Node Tracer::node_of(const OperatorCall& call) {
  Node node{.op = &call.op, .attributes = call.attributes, .site = OriginScope::stamped(call.site)};
  // What is written unrecorded has its place on the tape still, and nothing of what it was written from.
  const bool stops = marks_detached_ && !call.recorded && !call.destinations.empty();
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const ValueId id = operand_of(call.inputs[i], node.sees_shape_only(i), call.recorded);
    node.inputs.push_back(stops && differentiable_[id] && !node.sees_shape_only(i) ? stopped(id) : id);
  }
  add_random_state(call, node);
  for (const NDArray& destination : call.destinations)
    node.results.push_back({value_of(destination, false), false});
  return node;
}

// Of an operator that no kernel is for: what it is composed of, with this sink.
Arrays Tracer::take_apart(const OperatorCall& call) {
  const CallSinkScope taken(this);
  Arrays results = call.op.composition(call.inputs, call.attributes, call.site);
  if (call.destinations.empty())
    return results;
  for (std::size_t i = 0; i < call.destinations.size(); ++i)
    copy_into(results[i], call.destinations[i], call.site);
  results.clear();
  return results;
}

// As memory has it: what the tape saved before is stale then.
void Tracer::note_writes(const OperatorCall& call) {
  const auto raise = [&](const NDArray& array) {
    if (sluice::detail::Buffer* const buffer = array.object()->buffer; buffer != nullptr)
      buffer->raise_version();
    else
      ++versions_[graph_.root(value_of(array, false))];
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.mutates(i))
      raise(call.inputs[i]);
  }
  for (const NDArray& destination : call.destinations) {
    raise(destination);
    if (abstract_.find(abstract_value(destination)) != abstract_.end())
      continue;
    places_.emplace_back(destination, autograd::entry_of(destination));
    if (!call.recorded)
      continue;
    records_outside_ = true;
    note_beyond_calls(message(
        call.op.name, " is recorded and writes an array that stays (", describe(OriginScope::stamped(call.site)), ')'));
  }
}

std::uint64_t Tracer::version_of(const NDArray& array) const noexcept {
  const std::uint64_t before = outer_ == nullptr ? 0 : outer_->version_of(array);
  const auto id = abstract_.find(abstract_value(array));
  const auto known = id == abstract_.end() ? versions_.end() : versions_.find(graph_.root(id->second));
  return before + (known == versions_.end() ? 0 : known->second);
}

void Tracer::note_hook() {
  require<UnsupportedError>(outside_ == Outside::constants, [] {
    return "add_hook: a gradient that a hook changes cannot be part of a traced body";
  });
  has_own_gradients_ = true;
  note_beyond_calls("a gradient has a hook (autograd::add_hook)");
}

Arrays Tracer::take(const OperatorCall& call) {
  if (is_composed(call))
    return take_apart(call);
  Node node = node_of(call);
  note_writes(call);
  if (call.destinations.empty())
    return add_results(call, std::move(node));
  for (const Result& result : node.results) {
    const bool takes_some =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return differentiable_[input]; });
    differentiable_[result.value] = differentiable_[result.value] || (marks_detached_ && takes_some);
  }
  graph_.nodes.push_back(std::move(node));
  return {};
}

Arrays Tracer::add_results(const OperatorCall& call, Node node) {
  Arrays results = abstract_results(call);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValueId id =
        add({.spec = call.outputs[i]}, node.is_view() ? std::optional(graph_.root(node.inputs[0])) : std::nullopt);
    abstract_.emplace(abstract_value(results[i]), id);
    differentiable_[id] =
        is_floating(call.outputs[i].dtype) &&
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return differentiable_[input]; });
    node.results.push_back({id, true});
  }
  graph_.nodes.push_back(std::move(node));
  return results;
}

Graph Tracer::finish(std::span<const NDArray> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require<ValueError>(outputs[i].defined(), [&] { return message("trace: output ", i, " is an undefined NDArray"); });
    graph_.outputs.push_back(operand_of(outputs[i], false, outside_ == Outside::captured && autograd::is_recording()));
  }
  verify(graph_);
  return std::move(graph_);
}

}  // namespace sluice::graph
