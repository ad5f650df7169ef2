#include <algorithm>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/replay.h>
#include <sluice/operator/graph/respecified.h>
#include <sluice/operator/graph/trace.h>

namespace sluice::graph {

namespace {

bool same_value(const Value& a, const Value& b) {
  return a.source == b.source && a.root == b.root && a.counters == b.counters && a.spec.shape == b.spec.shape &&
         a.spec.dtype == b.spec.dtype && a.spec.device == b.spec.device;
}

// As they are written: NaN is the same as itself.
bool same_attributes(const Attributes& a, const Attributes& b) {
  const auto left = a.values(), right = b.values();
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && to_string(x.value) == to_string(y.value);
  });
}

bool same_node(const Node& a, const Node& b) {
  const bool same_results =
      std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(), [](Result x, Result y) {
        return x.value == y.value && x.made == y.made;
      });
  return a.op == b.op && a.inputs == b.inputs && same_results && same_attributes(a.attributes, b.attributes);
}

std::vector<bool> used_values(const Graph& graph) {
  std::vector<bool> used(graph.values.size());
  for (const ValueId output : graph.outputs)
    used[output] = true;
  for (const Node& node : graph.nodes) {
    for (const ValueId input : node.inputs)
      used[input] = true;
    for (const Result& result : node.results)
      used[result.value] = true;
  }
  return used;
}

void check_not_written(const Graph& graph) {
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    for_each_write(graph, node, [&](ValueId root) {
      require<UnsupportedError>(graph.values[root].source != Source::constant, [&] {
        return message(
            "graph: node ",
            at,
            " (",
            node.op->name,
            ") writes an array of shape ",
            graph.values[root].spec.shape,
            " that was there before, a parameter or another constant; it cannot be an input");
      });
    });
  }
}

}  // namespace

Graph with_inputs(const Graph& graph, std::span<const ArraySpec> specs) {
  require<ValueError>(specs.size() == graph.inputs.size(), [&] {
    return message("graph: takes ", graph.inputs.size(), " inputs, was given ", specs.size(), " specs");
  });
  const autograd::ModeScope unrecorded(false, autograd::is_training());
  Tracer tracer;
  Arrays inputs;
  for (const ArraySpec& spec : specs)
    inputs.push_back(tracer.input({spec.shape, spec.dtype, spec.device}));
  return tracer.trace([&] { return replay(graph, inputs, {.numbered = true}); });
}

Graph with_constants_as_inputs(const Graph& graph, std::vector<NDArray>& constants) {
  check_not_written(graph);
  const std::vector<bool> used = used_values(graph);
  Graph made = graph;
  constants.clear();
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (!used[id] || graph.values[id].source != Source::constant)
      continue;
    constants.push_back(graph.values[id].array);
    made.values[id] = {.source = Source::input, .spec = graph.values[id].spec, .root = id};
    made.inputs.push_back(id);
  }
  // What was one memory is several now.
  for (ValueId id = 0; id < made.values.size(); ++id) {
    if (made.values[id].source == Source::constant)
      made.values[id].root = id;
  }
  for (const Node& node : made.nodes) {
    if (node.is_view())
      made.values[node.results[0].value].root = made.root(node.inputs[0]);
  }
  return made;
}

bool is_same_program(const Graph& a, const Graph& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same_value) &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node);
}

}  // namespace sluice::graph
