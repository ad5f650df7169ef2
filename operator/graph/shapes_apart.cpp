#include <map>

#include <sluice/operator/graph/detail/shapes_apart.h>

namespace sluice::graph {

Graph with_shapes_apart(const Graph& graph) {
  Graph apart = graph;
  std::map<ValueId, ValueId> shapes;
  for (Node& node : apart.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (!node.sees_shape_only(i) || apart.values[input].source != Source::result)
        continue;
      const auto next = static_cast<ValueId>(apart.values.size());
      const auto [shape, is_new] = shapes.emplace(input, next);
      if (is_new) {
        ArraySpec spec = apart.values[input].spec;
        apart.values.push_back({.source = Source::shape, .spec = spec, .root = next});
      }
      node.inputs[i] = shape->second;
    }
  }
  return apart;
}

}  // namespace sluice::graph
