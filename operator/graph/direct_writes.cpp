#include <optional>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

/// The only maker and user of each value, where there is one.
struct Uses {
  explicit Uses(const Graph& graph)
      : maker(graph.values.size()), count(graph.values.size()), root_count(graph.values.size()) {
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
      const Node& node = graph.nodes[at];
      for (const ValueId id : node.outputs)
        maker[id] = at;
      for (const auto* ids : {&node.inputs, &node.destinations, &node.outputs}) {
        for (const ValueId id : *ids) {
          ++count[id];
          ++root_count[graph.root(id)];
        }
      }
    }
    for (const ValueId id : graph.outputs)
      ++count[id], ++root_count[graph.root(id)];
  }

  std::vector<std::optional<std::size_t>> maker;
  std::vector<int> count, root_count;
};

// Does a node between the two touch that memory?
bool is_touched(const Graph& graph, ValueId root, std::size_t after, std::size_t before) {
  bool touched = false;
  for (std::size_t at = after + 1; at < before; ++at) {
    const auto touch = [&](ValueId other) { touched = touched || other == root; };
    for_each_read(graph, graph.nodes[at], touch);
    for_each_write(graph, graph.nodes[at], touch);
  }
  return touched;
}

bool covers_memory(const Value& value) {
  return value.source == Source::constant && value.array.is_contiguous() &&
         sluice::detail::covers_buffer(*value.array.object());
}

// The node whose result the copy brings, if it can write there itself.
std::optional<std::size_t> maker_of(const Graph& graph, const Uses& uses, std::size_t copy) {
  const Node& node = graph.nodes[copy];
  if (node.op != &sluice::detail::k_copy || !node.attributes.empty() || node.destinations.size() != 1)
    return std::nullopt;
  const ValueId from = node.inputs[0], to = node.destinations[0];
  const std::optional<std::size_t> made = uses.maker[from];
  // One that makes it, and this one that reads it.
  if (!made || uses.count[from] != 2 || uses.root_count[from] != 2 || graph.root(from) != from)
    return std::nullopt;
  const Node& maker = graph.nodes[*made];
  bool reads_it = false;
  for_each_read(graph, maker, [&](ValueId root) { reads_it = reads_it || root == graph.root(to); });
  if (maker.is_view() || maker.outputs.size() != 1 || reads_it || !covers_memory(graph.values[to]) ||
      is_touched(graph, graph.root(to), *made, copy))
    return std::nullopt;
  return made;
}

}  // namespace

Graph with_direct_writes(const Graph& graph) {
  const Uses uses(graph);
  Graph direct = graph;
  std::vector<bool> dropped(graph.nodes.size());
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const std::optional<std::size_t> made = maker_of(graph, uses, at);
    if (!made || !direct.nodes[*made].destinations.empty())
      continue;
    direct.nodes[*made].outputs.clear();
    direct.nodes[*made].destinations = graph.nodes[at].destinations;
    dropped[at] = true;
  }
  std::size_t kept = 0;
  for (std::size_t at = 0; at < direct.nodes.size(); ++at) {
    if (!dropped[at]) {
      if (kept != at)
        direct.nodes[kept] = std::move(direct.nodes[at]);
      ++kept;
    }
  }
  direct.nodes.resize(kept);
  return direct;
}

Graph optimised(const Graph& graph) {
  Graph now = graph;
  for (const auto pass : {without_repetitions, without_dead_code, with_direct_writes}) {
    now = pass(now);
    verify(now);
  }
  return now;
}

std::vector<bool> invariant_nodes(const Graph& graph) {
  const std::vector<bool> rewritten = rewritten_roots(graph);
  std::vector<bool> invariant_value(graph.values.size()), found(graph.nodes.size());
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    bool same = node.destinations.empty() && node.op->random == nullptr && !node.outputs.empty();
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      same = same && !node.mutates(i) && (node.sees_shape_only(i) || invariant_value[node.inputs[i]]);
    for (const ValueId output : node.outputs)
      same = same && !rewritten[graph.root(output)];
    found[at] = same;
    for (const ValueId output : node.outputs)
      invariant_value[output] = same;
  }
  return found;
}

}  // namespace sluice::graph
