#include <numeric>

#include <sluice/operator/graph/passes.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

Graph without_detached(const Graph& graph) {
  std::vector<ValueId> meant(graph.values.size());
  std::iota(meant.begin(), meant.end(), ValueId{0});
  Graph less{.values = graph.values, .inputs = graph.inputs, .outputs = graph.outputs};
  for (Node node : graph.nodes) {
    for (ValueId& input : node.inputs)
      input = meant[input];
    if (node.op == &sluice::detail::k_detach) {
      meant[node.results[0].value] = node.inputs[0];
      continue;
    }
    for (Result& result : node.results)
      result.value = meant[result.value];
    less.nodes.push_back(std::move(node));
  }
  for (ValueId& output : less.outputs)
    output = meant[output];
  return less;
}

}  // namespace sluice::graph
