#include <map>

#include <sluice/operator/graph/detail/shapes_apart.h>

namespace sluice::graph {

namespace {

template <class IsMeant>
Graph with_shapes_of(const Graph& graph, std::size_t from, const IsMeant& is_meant) {
  Graph apart = graph;
  std::map<ValueId, ValueId> shapes;
  for (std::size_t at = from; at < apart.nodes.size(); ++at) {
    Node& node = apart.nodes[at];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (!node.sees_shape_only(i) || !is_meant(apart.values[input].source))
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

}  // namespace

Graph with_shapes_apart(const Graph& graph) {
  return with_shapes_of(graph, 0, [](Source source) { return source == Source::result; });
}

Graph with_shapes_apart_behind(const Graph& graph, std::size_t nodes) {
  return with_shapes_of(
      graph, nodes, [](Source source) { return source == Source::result || source == Source::input; });
}

}  // namespace sluice::graph
