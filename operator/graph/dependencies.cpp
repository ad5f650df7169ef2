#include <algorithm>

#include <sluice/operator/graph/detail/dependencies.h>
#include <sluice/operator/graph/detail/effects.h>

namespace sluice::graph {

namespace {

/// Who wrote a piece of memory last, and who read it since.
struct Access {
  std::optional<std::size_t> writer;
  std::vector<std::size_t> readers;
};

bool draws(const Graph& graph, const Node& node) {
  return node.op->random != nullptr || std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
           return graph.values[input].source == Source::random;
         });
}

}  // namespace

Dependencies::Dependencies(const Graph& graph)
    : after(graph.nodes.size()), maker(graph.values.size()), named_by(graph.values.size()) {
  for (std::size_t at = 0; at < graph.nodes.size(); ++at)
    add_names(graph, at);
  add_memory(graph);
  add_random(graph);
}

void Dependencies::add(std::size_t before, std::size_t node) {
  if (before != node && std::find(after[before].begin(), after[before].end(), node) == after[before].end())
    after[before].push_back(node);
}

void Dependencies::add_names(const Graph& graph, std::size_t at) {
  const auto name = [&](ValueId id) {
    if (maker[id])
      add(*maker[id], at);
    if (named_by[id].empty() || named_by[id].back() != at)
      named_by[id].push_back(at);
  };
  for (const ValueId input : graph.nodes[at].inputs)
    name(input);
  for (const auto [id, made] : graph.nodes[at].results) {
    if (made)
      maker[id] = at;
    else
      name(id);
  }
}

void Dependencies::add_memory(const Graph& graph) {
  std::vector<Access> accesses(graph.values.size());
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    if (node.is_view())
      continue;
    for_each_read(graph, node, [&](ValueId root) {
      if (accesses[root].writer)
        add(*accesses[root].writer, at);
    });
    for_each_write(graph, node, [&](ValueId root) {
      if (accesses[root].writer)
        add(*accesses[root].writer, at);
      for (const std::size_t reader : accesses[root].readers)
        add(reader, at);
    });
    for_each_read(graph, node, [&](ValueId root) { accesses[root].readers.push_back(at); });
    for_each_write(graph, node, [&](ValueId root) { accesses[root] = {at, {}}; });
  }
}

void Dependencies::add_random(const Graph& graph) {
  std::optional<std::size_t> last;
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    if (!draws(graph, graph.nodes[at]))
      continue;
    if (last)
      add(*last, at);
    last = at;
  }
}

}  // namespace sluice::graph
