#include <algorithm>
#include <map>
#include <optional>
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
  Part(const Graph& graph, const std::vector<bool>& chosen, std::vector<ValueId> inputs, std::vector<ValueId> outputs)
      : used_(graph.values.size()) {
    part_.values = graph.values;
    part_.inputs = std::move(inputs);
    part_.outputs = std::move(outputs);
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

/// Node by node, in order.
struct Derived {
  std::vector<bool> nodes, values;

  Derived(const Graph& graph, Derives what)
      : nodes(graph.nodes.size()), rewritten_(rewritten_roots(graph)), is_output_(graph.values.size()) {
    for (ValueId id = 0; id < graph.values.size(); ++id)
      values.push_back(
          what == Derives::of_constants && graph.values[id].source == Source::constant && !rewritten_[graph.root(id)]);
    for (const ValueId output : graph.outputs)  // which the caller may write
      is_output_[graph.root(output)] = true;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at)
      add(graph, at);
  }

 private:
  void add(const Graph& graph, std::size_t at) {
    const Node& node = graph.nodes[at];
    bool same = !node.has_destinations() && node.op->random == nullptr && node.op->capturable && !node.results.empty();
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      same = same && !node.mutates(i) && (node.sees_shape_only(i) || values[node.inputs[i]]);
    for (const auto& [id, made] : node.results)
      same = same && made && (node.is_view() || (!rewritten_[id] && !is_output_[id]));
    nodes[at] = same && !node.is_view();
    for (const Result& result : node.results)
      values[result.value] = same;
  }

  std::vector<bool> rewritten_, is_output_;
};

/// Of the nodes of a part, which make nothing that others read: `first` and those that go with it.
DerivedGroup group_at(const Graph& part, const std::vector<std::size_t>& first_of, std::size_t first) {
  DerivedGroup group;
  std::vector<bool> used(part.values.size());
  for (std::size_t at = part.nodes.size(); at-- > 0;) {
    const Node& node = part.nodes[at];
    if (node.is_view() ? !used[node.results[0].value] : first_of[at] != first)
      continue;
    group.nodes.push_back(at);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      used[node.inputs[i]] = used[node.inputs[i]] || !node.sees_shape_only(i);
  }
  std::reverse(group.nodes.begin(), group.nodes.end());
  for (ValueId id = 0; id < part.values.size(); ++id) {
    if (used[id] && part.values[id].source == Source::constant)
      group.sources.push_back(id);
  }
  return group;
}

std::vector<DerivedGroup> groups_of(const Graph& part) {
  std::vector<std::size_t> first_of(part.nodes.size());  // of the group that the node is in
  std::vector<std::optional<std::size_t>> maker(part.values.size());
  for (std::size_t at = 0; at < part.nodes.size(); ++at) {
    first_of[at] = at;
    if (part.nodes[at].is_view())
      continue;
    for_each_read(part, part.nodes[at], [&](ValueId root) {
      if (maker[root])
        std::replace(first_of.begin(), first_of.end(), first_of[at], first_of[*maker[root]]);
    });
    for (const Result& result : part.nodes[at].results)
      maker[result.value] = at;
  }
  std::map<std::size_t, DerivedGroup> found;
  for (const ValueId kept : part.outputs) {
    const std::size_t first = first_of[*maker[kept]];
    const auto [place, is_new] = found.try_emplace(first);
    if (is_new)
      place->second = group_at(part, first_of, first);
    place->second.kept.push_back(kept);
  }
  std::vector<DerivedGroup> groups;
  for (auto& [first, group] : found)
    groups.push_back(std::move(group));
  return groups;
}

// All results of a node are kept or none, as it gets the arrays for all.
std::vector<ValueId> kept_of(const Graph& graph, const std::vector<bool>& derived) {
  std::vector<bool> is_read(graph.values.size());
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    if (!derived[at] && !graph.nodes[at].is_view())
      for_each_read(graph, graph.nodes[at], [&](ValueId root) { is_read[root] = true; });
  }
  std::vector<ValueId> kept;
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const std::vector<Result>& results = graph.nodes[at].results;
    if (derived[at] &&
        std::any_of(results.begin(), results.end(), [&](const Result& result) { return is_read[result.value]; })) {
      for (const Result& result : results)
        kept.push_back(result.value);
    }
  }
  return kept;
}

// Of the derived nodes; on the way to what is kept.
std::vector<bool> needed_for(const Graph& graph, const std::vector<bool>& derived, const std::vector<ValueId>& kept) {
  std::vector<bool> is_read(graph.values.size()), needed(graph.nodes.size());
  for (const ValueId id : kept)
    is_read[id] = true;
  for (std::size_t at = graph.nodes.size(); at-- > 0;) {
    const std::vector<Result>& results = graph.nodes[at].results;
    needed[at] = derived[at] && std::any_of(results.begin(), results.end(), [&](const Result& result) {
                   return is_read[result.value];
                 });
    if (needed[at])
      for_each_read(graph, graph.nodes[at], [&](ValueId root) { is_read[root] = true; });
  }
  return needed;
}

}  // namespace

std::vector<bool> derived_nodes(const Graph& graph) {
  return Derived(graph, Derives::of_constants).nodes;
}

std::vector<bool> derived_values(const Graph& graph) {
  return Derived(graph, Derives::of_constants).values;
}

std::optional<DerivedSplit> split_derived(const Graph& graph, Derives what) {
  const Graph apart = with_shapes_apart(graph);
  std::vector<bool> derived = Derived(apart, what).nodes;
  const std::vector<ValueId> kept = kept_of(apart, derived);
  if (kept.empty())
    return std::nullopt;
  DerivedSplit split;
  split.derived = Part(apart, needed_for(apart, derived, kept), {}, kept).take();
  split.groups = groups_of(split.derived);
  derived.flip();
  split.rest = Part(apart, derived, apart.inputs, apart.outputs).take();
  for (const ValueId id : kept)
    split.rest.values[id].source = Source::constant;
  return split;
}

}  // namespace sluice::graph
