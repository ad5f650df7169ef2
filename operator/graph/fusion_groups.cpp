#include <algorithm>
#include <utility>

#include <sluice/operator/fused/detail/schedule.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/failures.h>
#include <sluice/operator/graph/detail/fusion_groups.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

// A task treats denormals by the types that it sees: calls whose own tasks would do otherwise stay apart.
enum class Width : std::uint8_t { none, narrow, wide, mixed };

Width width_of(DType dtype) {
  return !is_floating(dtype) ? Width::none : dtype == DType::float64 ? Width::wide : Width::narrow;
}
Width joined(Width a, Width b) {
  return a == Width::none || a == b ? b : b == Width::none ? a : Width::mixed;
}

const ValueId& result_of(const Node& node) {
  return node.results[0].value;
}

Width width_of(const Graph& graph, const Node& node) {
  Width width = width_of(graph.values[result_of(node)].spec.dtype);
  for (const ValueId input : node.inputs)
    width = joined(width, width_of(graph.values[input].spec.dtype));
  return width;
}

// Of a turned array a copy has a kernel of its own.
bool copies_as_it_lies(const Graph& graph, const Dependencies& order, const Node& node) {
  if (node.op != &sluice::detail::k_copy)
    return false;
  const ValueId from = node.inputs[0];
  return !order.maker[from] || graph.nodes[*order.maker[from]].is_view();
}

}  // namespace

bool is_fusable(const Graph& graph, const Dependencies& order, std::size_t at) {
  const Node& node = graph.nodes[at];
  if (node.results.size() != 1 || node.inputs.empty() || node.is_view())
    return false;
  const ArraySpec& result = graph.values[result_of(node)].spec;
  if (!is_computed(result.dtype))
    return false;
  std::vector<DType> types;
  for (const ValueId input : node.inputs) {
    const Value& value = graph.values[input];
    if (!(value.spec.device == result.device) || value.source == Source::random || value.source == Source::shape ||
        !is_computed(value.spec.dtype))
      return false;
    types.push_back(value.spec.dtype);
  }
  return fused::runs_on(result.device) && fused::type_of_call(*node.op, types, node.attributes) == result.dtype &&
         !copies_as_it_lies(graph, order, node);
}

namespace {

class Grouper {
 public:
  Grouper(const Graph& graph, const Dependencies& order)
      : graph_(graph),
        order_(order),
        failures_(graph),
        group_(graph.nodes.size()),
        members_(graph.nodes.size()),
        fusable_(graph.nodes.size()),
        once_(invariant_nodes(graph)),
        seen_(graph.nodes.size()),
        is_output_(graph.values.size()) {
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
      group_[at] = at;
      members_[at] = {at};
      fusable_[at] = is_fusable(graph, order, at);
    }
    for (const ValueId output : graph.outputs)
      is_output_[output] = true;
  }

  std::vector<FusionGroup> run() {
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at)
      join_with_makers(at);
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      join_readers(id);
    std::vector<FusionGroup> groups;
    for (std::vector<std::size_t>& nodes : members_) {
      if (nodes.size() > 1)
        add_group(groups, std::move(nodes));
      else if (!nodes.empty())
        groups.push_back({.nodes = std::move(nodes)});
    }
    return groups;
  }

 private:
  // A value between two nodes of one group is neither written nor read.
  void join_with_makers(std::size_t at) {
    for (const ValueId input : graph_.nodes[at].inputs) {
      if (order_.maker[input])
        try_to_join(*order_.maker[input], at);
    }
  }

  // What two nodes of one group read is read once: worth it where it is as large as what they make.
  void join_readers(ValueId id) {
    const std::vector<std::size_t>& names = order_.named_by[id];
    for (std::size_t i = 1; i < names.size(); ++i) {
      const std::size_t a = names[i - 1], b = names[i];
      const bool is_near = b - a <= k_near;
      if (is_near && fusable_[a] && graph_.values[id].spec.shape == shape_of(a))
        try_to_join(a, b);
    }
  }

  const Shape& shape_of(std::size_t at) const { return graph_.values[result_of(graph_.nodes[at])].spec.shape; }

  void try_to_join(std::size_t a, std::size_t b) {
    if (group_[a] == group_[b] || !fusable_[a] || !fusable_[b] || !are_alike(a, b))
      return;
    const std::vector<std::size_t>&first = members_[group_[a]], &second = members_[group_[b]];
    std::vector<std::size_t> nodes;
    std::merge(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(nodes));
    if (nodes.size() > k_most_fused_calls)
      return;
    const FusionGroup group = described(nodes);
    if (!is_small(group) || !fails_as_one(group) || !memory_allows(nodes) || waits_for_itself(nodes))
      return;
    const std::size_t to = std::min(group_[a], group_[b]), from = std::max(group_[a], group_[b]);
    for (const std::size_t at : nodes)
      group_[at] = to;
    members_[to] = std::move(nodes);
    members_[from].clear();
  }

  // What runs once must not run each time.
  bool are_alike(std::size_t a, std::size_t b) const {
    const Value &x = graph_.values[result_of(graph_.nodes[a])], &y = graph_.values[result_of(graph_.nodes[b])];
    Width width = Width::none;
    for (const std::size_t at : {a, b}) {
      for (const std::size_t member : members_[group_[at]])
        width = joined(width, width_of(graph_, graph_.nodes[member]));
    }
    return x.spec.shape == y.spec.shape && x.spec.device == y.spec.device && once_[a] == once_[b] &&
           width != Width::mixed;
  }

  FusionGroup described(std::vector<std::size_t> nodes) const {
    FusionGroup group{.nodes = std::move(nodes)};
    const auto is_inside = [&](std::size_t at) {
      return std::binary_search(group.nodes.begin(), group.nodes.end(), at);
    };
    for (const std::size_t at : group.nodes) {
      for (const ValueId input : graph_.nodes[at].inputs) {
        const auto& maker = order_.maker[input];
        const bool is_known = std::find(group.inputs.begin(), group.inputs.end(), input) != group.inputs.end();
        if (!is_known && !(maker && is_inside(*maker)))
          group.inputs.push_back(input);
      }
      const Result& result = graph_.nodes[at].results[0];
      const std::vector<std::size_t>& names = order_.named_by[result.value];
      const bool stays_inside = !names.empty() && std::all_of(names.begin(), names.end(), is_inside);
      if (!result.made || is_output_[result.value] || !stays_inside)
        group.outputs.push_back(result);
    }
    return group;
  }

  bool is_small(const FusionGroup& group) const {
    return group.inputs.size() <= k_most_fused_inputs && group.outputs.size() <= k_most_fused_outputs;
  }

  // One that fails would take along what goes on without it.
  bool fails_as_one(const FusionGroup& group) {
    std::size_t all = failures_.of(group.nodes.front());
    for (const std::size_t at : group.nodes)
      all = failures_.joined(all, failures_.of(at));
    return std::all_of(group.nodes.begin(), group.nodes.end(), [&](std::size_t at) {
      const Result& result = graph_.nodes[at].results[0];
      const bool is_seen = std::any_of(group.outputs.begin(), group.outputs.end(), [&](const Result& output) {
        return output.value == result.value;
      });
      return !is_seen || failures_.of(at) == all;
    });
  }

  // All is read before anything is written into memory that is there: nobody in the group may count on what another
  // one wrote there, nor write there too. What the group makes is read as the value that it is.
  bool memory_allows(const std::vector<std::size_t>& nodes) const {
    std::vector<ValueId> written, made;
    const auto holds = [](const std::vector<ValueId>& ids, ValueId id) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    for (const std::size_t at : nodes) {
      const Node& node = graph_.nodes[at];
      for (const ValueId input : node.inputs) {
        const ValueId root = graph_.root(input);
        if (holds(written, root) || (holds(made, root) && input != root))
          return false;
      }
      const auto [value, is_made] = node.results[0];
      const ValueId root = graph_.root(value);
      if (!is_made && (holds(written, root) || holds(made, root)))
        return false;
      (is_made ? made : written).push_back(root);
    }
    return true;
  }

  // Does a way lead from the nodes through others, and what runs together with those, back to them?
  bool waits_for_itself(const std::vector<std::size_t>& nodes) {
    const std::size_t a = group_[nodes.front()];
    const auto other = std::find_if(nodes.begin(), nodes.end(), [&](std::size_t at) { return group_[at] != a; });
    const std::size_t b = group_[*other];
    ++stamp_;
    std::vector<std::size_t> open;
    const auto enter = [&](std::size_t at) {
      const std::size_t group = group_[at];
      if (group != a && group != b && std::exchange(seen_[group], stamp_) != stamp_)
        open.push_back(group);
    };
    for (const std::size_t at : nodes)
      std::for_each(order_.after[at].begin(), order_.after[at].end(), enter);
    while (!open.empty()) {
      const std::size_t group = open.back();
      open.pop_back();
      for (const std::size_t member : members_[group]) {
        for (const std::size_t next : order_.after[member]) {
          if (group_[next] == a || group_[next] == b)
            return true;
          enter(next);
        }
      }
    }
    return false;
  }

  // A group with float64 inside alone would run in a task that knows nothing of it.
  void add_group(std::vector<FusionGroup>& groups, std::vector<std::size_t> nodes) const {
    FusionGroup group = described(std::move(nodes));
    Width inside = Width::none, seen = Width::none;
    for (const std::size_t at : group.nodes)
      inside = joined(inside, width_of(graph_, graph_.nodes[at]));
    for (const ValueId input : group.inputs)
      seen = joined(seen, width_of(graph_.values[input].spec.dtype));
    for (const Result& output : group.outputs)
      seen = joined(seen, width_of(graph_.values[output.value].spec.dtype));
    if (inside != Width::wide || seen == Width::wide) {
      groups.push_back(std::move(group));
      return;
    }
    for (const std::size_t at : group.nodes)
      groups.push_back({.nodes = {at}});
  }

  static constexpr std::size_t k_near = 64;  // nodes between two that are joined for what they read alone

  const Graph& graph_;
  const Dependencies& order_;
  Failures failures_;
  std::vector<std::size_t> group_;                 // by node
  std::vector<std::vector<std::size_t>> members_;  // by group: in order
  std::vector<bool> fusable_, once_;
  std::vector<std::size_t> seen_;  // by group: when it was reached last
  std::size_t stamp_ = 0;
  std::vector<bool> is_output_;
};

}  // namespace

std::vector<FusionGroup> fusion_groups(const Graph& graph, const Dependencies& order) {
  return Grouper(graph, order).run();
}

}  // namespace sluice::graph
