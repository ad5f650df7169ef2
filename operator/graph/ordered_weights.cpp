#include <map>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/conv/fused.h>
#include <sluice/operator/graph/detail/derived.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

bool is_convolution(const Operator* op) {
  return op == &sluice::detail::convolution_op || op == &sluice::detail::convolution_relu_op ||
         op == &sluice::detail::convolution_fused_op;
}

// Does the node bring the weight into another order each time?
bool reorders_weight(const Graph& graph, const Node& node) {
  if (!is_convolution(node.op) || node.op->order == nullptr || !graph.values[node.inputs[0]].spec.device.is_gpu())
    return false;
  Arrays inputs;
  for (const ValueId input : node.inputs)
    inputs.push_back(abstract_array(graph.values[input].spec));
  if (node.op->order(inputs, node.attributes) != MemoryOrder::channels_last)
    return false;
  const Value& weight = graph.values[node.inputs[1]];
  const NDArray& lies = weight.source == Source::constant ? weight.array : inputs[1];
  return !sluice::detail::is_in_order(lies.shape(), lies.strides(), MemoryOrder::channels_last);
}

}  // namespace

Graph with_ordered_weights(const Graph& graph) {
  Graph made = graph;
  made.nodes.clear();
  const std::vector<bool> derived = derived_values(graph);
  std::map<ValueId, ValueId> ordered;
  for (Node node : graph.nodes) {
    if (is_convolution(node.op) && derived[node.inputs[1]] && reorders_weight(graph, node)) {
      const ValueId weight = node.inputs[1], next = static_cast<ValueId>(made.values.size());
      const auto [place, is_new] = ordered.emplace(weight, next);
      if (is_new) {
        made.values.push_back({.source = Source::result, .spec = graph.values[weight].spec, .root = next});
        made.values.back().spec.value = 0;
        made.nodes.push_back(
            {.op = &sluice::detail::k_channels_last,
             .inputs = {weight},
             .results = {{.value = next}},
             .site = node.site});
      }
      node.inputs[1] = place->second;
    }
    made.nodes.push_back(std::move(node));
  }
  return ordered.empty() ? graph : made;
}

}  // namespace sluice::graph
