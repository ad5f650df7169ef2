#include <algorithm>
#include <map>
#include <queue>

#include <sluice/operator/fused/fused.h>
#include <sluice/operator/graph/detail/fusion_groups.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

namespace {

Node fused_node(const Graph& graph, const FusionGroup& group) {
  fused::Program program;
  std::map<ValueId, fused::Number> numbers;
  const auto add = [&](ValueId id) { numbers.emplace(id, static_cast<fused::Number>(numbers.size())); };
  for (const ValueId input : group.inputs) {
    add(input);
    program.inputs.push_back(graph.values[input].spec.dtype);
  }
  std::vector<fused::Number> number_of_call;
  for (const std::size_t at : group.nodes) {
    const Node& node = graph.nodes[at];
    const ValueId result = node.results[0].value;
    fused::Call call{.op = node.op, .attributes = node.attributes, .dtype = graph.values[result].spec.dtype};
    for (const ValueId input : node.inputs)
      call.operands.push_back(numbers.at(input));
    const auto number = static_cast<fused::Number>(program.inputs.size() + program.calls.size());
    program.calls.push_back(std::move(call));
    if (node.results[0].made)
      numbers.emplace(result, number);
    if (std::any_of(group.outputs.begin(), group.outputs.end(), [&](const Result& r) { return r.value == result; }))
      program.outputs.push_back(number);
  }
  return {
      .op = &fused::k_fused,
      .attributes = fused::attributes_of(program),
      .inputs = group.inputs,
      .results = group.outputs,
      .site = graph.nodes[group.nodes.front()].site};
}

// Groups in an order in which they can run, each about where its last node was.
std::vector<std::size_t> order_of(
    const Graph& graph, const Dependencies& order, const std::vector<FusionGroup>& groups) {
  std::vector<std::size_t> group_of(graph.nodes.size()), waits_for(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const std::size_t at : groups[i].nodes)
      group_of[at] = i;
  }
  const auto for_each_next = [&](std::size_t group, const auto& each) {
    for (const std::size_t at : groups[group].nodes) {
      for (const std::size_t next : order.after[at]) {
        if (group_of[next] != group)
          each(group_of[next]);
      }
    }
  };
  for (std::size_t i = 0; i < groups.size(); ++i)
    for_each_next(i, [&](std::size_t next) { ++waits_for[next]; });
  const auto is_later = [&](std::size_t a, std::size_t b) { return groups[a].nodes.back() > groups[b].nodes.back(); };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(is_later)> ready(is_later);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (waits_for[i] == 0)
      ready.push(i);
  }
  std::vector<std::size_t> sorted;
  while (!ready.empty()) {
    sorted.push_back(ready.top());
    ready.pop();
    for_each_next(sorted.back(), [&](std::size_t next) {
      if (--waits_for[next] == 0)
        ready.push(next);
    });
  }
  return sorted;
}

}  // namespace

Graph with_fused_pointwise(const Graph& graph) {
  const Graph apart = with_shapes_apart(graph);
  const Dependencies order(apart);
  const std::vector<FusionGroup> groups = fusion_groups(apart, order);
  if (groups.size() == graph.nodes.size())
    return graph;
  Graph fused{.values = apart.values, .inputs = graph.inputs, .outputs = graph.outputs};
  for (const std::size_t at : order_of(apart, order, groups)) {
    const FusionGroup& group = groups[at];
    if (group.nodes.size() > 1) {
      Node node = fused_node(apart, group);
      const Device device = apart.values[group.outputs[0].value].spec.device;
      if (fused::prepare(node.attributes, device).empty()) {
        fused.nodes.push_back(std::move(node));
        continue;
      }
    }
    for (const std::size_t single : group.nodes)
      fused.nodes.push_back(apart.nodes[single]);
  }
  return fused;
}

}  // namespace sluice::graph
