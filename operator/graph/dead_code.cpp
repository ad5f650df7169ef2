#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

// Backwards: a node lives if it makes a value that lives, or writes memory that somebody reads later. Memory that was
// once live stays so: an earlier writer may have written another part of it.
Graph without_dead_code(const Graph& graph) {
  std::vector<bool> value_lives(graph.values.size()), root_lives(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id)
    root_lives[id] = graph.root(id) == id && is_outside(graph, id);
  const auto keep = [&](ValueId id) {
    value_lives[id] = true;
    root_lives[graph.root(id)] = true;
  };
  for (const ValueId output : graph.outputs)
    keep(output);
  std::vector<bool> lives(graph.nodes.size());
  for (std::size_t at = graph.nodes.size(); at-- > 0;) {
    const Node& node = graph.nodes[at];
    for (const ValueId input : node.inputs)  // others draw their numbers behind its
      lives[at] = lives[at] || graph.values[input].source == Source::random;
    for (const Result& result : node.results)
      lives[at] = lives[at] || value_lives[result.value];
    for_each_write(graph, node, [&](ValueId root) { lives[at] = lives[at] || root_lives[root]; });
    if (!lives[at])
      continue;
    for (const ValueId input : node.inputs)
      keep(input);
    for (const Result& result : node.results) {
      if (!result.made)
        keep(result.value);
    }
  }
  Graph less{.values = graph.values, .inputs = graph.inputs, .outputs = graph.outputs};
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    if (lives[at])
      less.nodes.push_back(graph.nodes[at]);
  }
  return less;
}

}  // namespace sluice::graph
