#include <sluice/engine/origin.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/given_kernels.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/invoke.h>

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

}  // namespace

void Tracer::begin() {
  require<ValueError>(!begun_, [] { return "trace: a Tracer makes one graph; this one was used before"; });
  begun_ = true;
}

NDArray Tracer::input(const ArraySpec& spec) {
  require<ValueError>(
      !begun_, [] { return "trace: inputs are made before the program is traced, or by late_input()"; });
  return late_input(spec);
}

NDArray Tracer::late_input(const ArraySpec& spec) {
  NDArray array = abstract_array(spec);
  const ValueId id = add({.source = Source::input, .spec = spec});
  abstract_.emplace(abstract_value(array), id);
  graph_.inputs.push_back(id);
  return array;
}

ValueId Tracer::add(Value value, std::optional<ValueId> root) {
  const auto id = static_cast<ValueId>(graph_.values.size());
  value.root = root.value_or(id);
  graph_.values.push_back(std::move(value));
  return id;
}

// Two views of one array with memory are two constants of one root.
ValueId Tracer::constant_of(const NDArray& array) {
  const detail::ArrayObject& object = *array.object();
  const Place place{object.buffer, object.offset, message(object.dtype, object.shape, object.strides)};
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
  constants_.emplace(place, id);
  roots_.emplace(object.buffer, graph_.root(id));
  return id;
}

ValueId Tracer::value_of(const NDArray& array, bool shape_only) {
  const detail::ArrayObject& object = *array.object();
  if (const auto found = abstract_.find(abstract_value(array)); found != abstract_.end())
    return found->second;
  if (shape_only)
    return add({.source = Source::shape, .spec = {object.shape, object.dtype, object.device}});
  require<ValueError>(object.buffer != nullptr, [&] {
    return message("trace: an array of shape ", object.shape, " has no memory and was made outside of what is traced");
  });
  return constant_of(array);
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
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    node.inputs.push_back(value_of(call.inputs[i], node.sees_shape_only(i)));
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

Arrays Tracer::take(const OperatorCall& call) {
  if (is_composed(call))
    return take_apart(call);
  Node node = node_of(call);
  if (call.destinations.empty())
    return add_results(call, std::move(node));
  graph_.nodes.push_back(std::move(node));
  return {};
}

Arrays Tracer::add_results(const OperatorCall& call, Node node) {
  Arrays results = abstract_results(call);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValueId id =
        add({.spec = call.outputs[i]}, node.is_view() ? std::optional(graph_.root(node.inputs[0])) : std::nullopt);
    abstract_.emplace(abstract_value(results[i]), id);
    node.results.push_back({id, true});
  }
  graph_.nodes.push_back(std::move(node));
  return results;
}

Graph Tracer::finish(std::span<const NDArray> outputs) {
  for (const NDArray& output : outputs)
    graph_.outputs.push_back(value_of(output, false));
  verify(graph_);
  return std::move(graph_);
}

}  // namespace sluice::graph
