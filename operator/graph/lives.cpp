#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/lives.h>

namespace sluice::graph {

Lives::Lives(const Graph& graph)
    : maker(graph.values.size()), uses(graph.values.size()), rewrites(graph.values.size()) {
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    for (const Result& result : node.results) {
      if (result.made)
        maker[result.value] = at;
    }
    if (node.is_view())
      continue;
    const auto use = [&](ValueId root) {
      if (uses[root].empty() || uses[root].back() != at)
        uses[root].push_back(at);
    };
    for_each_read(graph, node, use);
    for_each_write(graph, node, [&](ValueId root) {
      use(root);
      if (maker[root] != at)
        rewrites[root].push_back(at);
    });
  }
  for (const ValueId output : graph.outputs)
    uses[graph.root(output)].push_back(graph.nodes.size());
}

}  // namespace sluice::graph
