#include <algorithm>
#include <vector>

#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

namespace {

/// What the nodes that were not looked at yet must leave, from the last one on.
class Needs {
 public:
  explicit Needs(const Graph& graph) : graph_(graph), value_(graph.values.size()), memory_(graph.values.size()) {
    for (const ValueId output : graph.outputs)
      value_[output] = memory_[graph.root(output)] = true;
  }

  /// How much there is so far: it only grows.
  std::size_t size() const {
    return static_cast<std::size_t>(
        std::count(value_.begin(), value_.end(), true) + std::count(memory_.begin(), memory_.end(), true));
  }

  bool has(const Node& node) const {
    bool needed = std::any_of(
        node.results.begin(), node.results.end(), [&](const Result& result) { return value_[result.value]; });
    for_each_write(graph_, node, [&](ValueId root) { needed = needed || memory_[root]; });
    return needed;
  }

  void add(const Node& node) {
    for (const ValueId input : node.inputs)
      value_[input] = true;
    for (const Result& result : node.results)
      value_[result.value] = true;
    for_each_read(graph_, node, [&](ValueId root) { memory_[root] = true; });
  }

 private:
  const Graph& graph_;
  std::vector<bool> value_, memory_;
};

}  // namespace

Graph for_outputs_alone(const Graph& graph) {
  Needs needs(graph);
  std::size_t before = 0;
  do {  // a node may read what a later one writes
    before = needs.size();
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      if (needs.has(*node))
        needs.add(*node);
    }
  } while (needs.size() != before);
  Graph less = graph;
  std::erase_if(less.nodes, [&](const Node& node) { return !needs.has(node); });
  return less;
}

bool writes_inputs(const Graph& graph) {
  return writer_of_inputs(graph) != nullptr;
}

const Node* writer_of_inputs(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    bool writes = false;
    for_each_write(graph, node, [&](ValueId root) { writes = writes || graph.values[root].source == Source::input; });
    if (writes)
      return &node;
  }
  return nullptr;
}

std::vector<NDArray> steady_constants(const Graph& graph) {
  const std::vector<bool> rewritten = rewritten_roots(graph);
  std::vector<bool> is_read(graph.values.size());
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.sees_shape_only(i))
        is_read[node.inputs[i]] = true;
    }
  }
  std::vector<NDArray> found;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (is_read[id] && graph.values[id].source == Source::constant && !rewritten[graph.root(id)])
      found.push_back(graph.values[id].array);
  }
  return found;
}

}  // namespace sluice::graph
