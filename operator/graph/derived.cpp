#include <algorithm>
#include <utility>

#include <sluice/operator/graph/detail/derived.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

namespace {

/// Some nodes of a graph as one, with the views that they and the outputs look through.
class Part {
 public:
  Part(const Graph& graph, const std::vector<bool>& chosen, bool is_whole) : used_(graph.values.size()) {
    part_.values = graph.values;
    if (is_whole) {
      part_.inputs = graph.inputs;
      part_.outputs = graph.outputs;
    }
    for (const auto* const named : {&part_.inputs, &part_.outputs}) {
      for (const ValueId id : *named)
        used_[id] = true;
    }
    for (std::size_t at = graph.nodes.size(); at-- > 0;) {
      const Node& node = graph.nodes[at];
      if (!(node.is_view() ? used_[node.results[0].value] : chosen[at]))
        continue;
      for (const ValueId id : node.inputs)
        used_[id] = true;
      for (const Result& result : node.results)  // where it goes
        used_[result.value] = true;
      part_.nodes.push_back(node);
    }
    std::reverse(part_.nodes.begin(), part_.nodes.end());
  }

  Graph take() {
    std::vector<bool> read(part_.values.size());
    for (const Node& node : part_.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        read[node.inputs[i]] = read[node.inputs[i]] || !node.sees_shape_only(i);
      for (const Result& result : node.results)
        read[result.value] = true;
    }
    for (const auto* const named : {&part_.inputs, &part_.outputs}) {
      for (const ValueId id : *named)
        read[id] = true;
    }
    for (ValueId id = 0; id < part_.values.size(); ++id) {
      if (read[id])
        read[part_.root(id)] = true;
    }
    for (ValueId id = 0; id < part_.values.size(); ++id) {
      Value& value = part_.values[id];
      if (value.source == Source::result || read[id])
        continue;
      value.source = Source::shape;
      value.root = id;
      value.array = {};
    }
    return std::move(part_);
  }

 private:
  std::vector<bool> used_;
  Graph part_;
};

}  // namespace

namespace {

/// Node by node, in order.
struct Derived {
  std::vector<bool> nodes, values;
  bool any = false;  // of constants, not of nothing

  explicit Derived(const Graph& graph)
      : nodes(graph.nodes.size()), rewritten_(rewritten_roots(graph)), is_output_(graph.values.size()) {
    for (ValueId id = 0; id < graph.values.size(); ++id)
      values.push_back(graph.values[id].source == Source::constant && !rewritten_[graph.root(id)]);
    from_constant_ = values;
    for (const ValueId output : graph.outputs)  // which the caller may write
      is_output_[graph.root(output)] = true;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at)
      add(graph, at);
  }

 private:
  void add(const Graph& graph, std::size_t at) {
    const Node& node = graph.nodes[at];
    bool same = !node.has_destinations() && node.op->random == nullptr && node.op->capturable && !node.results.empty();
    bool from = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      same = same && !node.mutates(i) && (node.sees_shape_only(i) || values[node.inputs[i]]);
      from = from || (!node.sees_shape_only(i) && from_constant_[node.inputs[i]]);
    }
    for (const auto& [id, made] : node.results)
      same = same && made && (node.is_view() || (!rewritten_[id] && !is_output_[id]));
    nodes[at] = same && !node.is_view();
    any = any || (nodes[at] && from);
    for (const Result& result : node.results) {
      values[result.value] = same;
      from_constant_[result.value] = same && from;
    }
  }

  std::vector<bool> rewritten_, is_output_, from_constant_;
};

}  // namespace

std::vector<bool> derived_nodes(const Graph& graph) {
  Derived found(graph);
  return found.any ? std::move(found.nodes) : std::vector<bool>(graph.nodes.size());
}

std::vector<bool> derived_values(const Graph& graph) {
  return Derived(graph).values;
}

std::optional<DerivedSplit> split_derived(const Graph& graph) {
  const Graph apart = with_shapes_apart(graph);
  std::vector<bool> chosen = derived_nodes(apart);
  if (std::find(chosen.begin(), chosen.end(), true) == chosen.end())
    return std::nullopt;
  DerivedSplit split;
  split.derived = Part(apart, chosen, false).take();
  chosen.flip();
  split.rest = Part(apart, chosen, true).take();
  for (ValueId id = 0; id < split.derived.values.size(); ++id) {
    if (split.derived.values[id].source == Source::constant)
      split.sources.push_back(id);
  }
  for (const Node& node : split.derived.nodes) {
    for (const Result& result : node.results) {
      if (node.is_view())
        continue;
      split.kept.push_back(result.value);
      split.rest.values[result.value].source = Source::constant;
    }
  }
  return split;
}

}  // namespace sluice::graph
