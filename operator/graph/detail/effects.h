#pragma once

#include <vector>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Calls `each` with the root of all memory that the node reads.
template <class Each>
void for_each_read(const Graph& graph, const Node& node, const Each& each) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.sees_shape_only(i))
      each(graph.root(node.inputs[i]));
  }
}

/// Calls `each` with the root of all memory that the node writes: what it makes, destinations, inputs that it changes.
/// A view writes nothing.
template <class Each>
void for_each_write(const Graph& graph, const Node& node, const Each& each) {
  if (node.is_view())
    return;
  for (const Result& result : node.results)
    each(graph.root(result.value));
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.mutates(i))
      each(graph.root(node.inputs[i]));
  }
}

/// Roots that some node writes which did not make them, by value.
std::vector<bool> rewritten_roots(const Graph& graph);

/// Is the memory there before the graph runs, and after?
inline bool is_outside(const Graph& graph, ValueId root) noexcept {
  const Source source = graph.values[root].source;
  return source == Source::constant || source == Source::input;
}

}  // namespace sluice::graph
