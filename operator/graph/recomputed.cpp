#include <utility>

#include <sluice/operator/graph/detail/recomputable.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

/// Writes a graph anew, node by node, with copies in front of those that read what is made again.
class Rewriting {
 public:
  Rewriting(const Recomputable& known, const std::vector<bool>& again)
      : graph_(known.graph()),
        known_(known),
        again_(again),
        copy_of_(graph_.values.size(), k_none),
        named_at_(graph_.values.size()) {
    made_.graph = {.values = graph_.values, .inputs = graph_.inputs, .outputs = graph_.outputs};
  }

  Recomputed run() {
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      Node node = graph_.nodes[at];
      for (std::size_t i = 0; i < node.inputs.size() && !node.is_view(); ++i) {
        if (!node.sees_shape_only(i))
          node.inputs[i] = available(node.inputs[i], at);
      }
      made_.graph.nodes.push_back(std::move(node));
    }
    return std::move(made_);
  }

 private:
  static constexpr ValueId k_none = ~ValueId{0};

  // The value itself, or one that holds the same, for who reads it in front of node `at`.
  ValueId available(ValueId id, std::size_t at) {
    const ValueId root = graph_.root(id);
    if (!again_[root] || at <= known_.root(root).early_end)
      return id;
    if (id != root)
      return seen(id, at);
    if (copy_of_[id] == k_none || was_kept_in_vain(id, at))
      make(id, at);
    named_at_[id] = at;
    return copy_of_[id] == k_none ? id : copy_of_[id];
  }

  // A copy that nobody needed for as long as the value itself was not kept.
  bool was_kept_in_vain(ValueId root, std::size_t at) const {
    const Recomputable::Root& of = known_.root(root);
    return of.late_begin != Recomputable::k_forever && at - named_at_[root] > of.late_begin - of.early_end;
  }

  void make(ValueId root, std::size_t at) {
    const std::size_t maker = known_.maker(root);
    if (known_.unchanged_until(maker) < at)
      return;
    Node node = graph_.nodes[maker];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.sees_shape_only(i) && !node.mutates(i))
        node.inputs[i] = available(node.inputs[i], at);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.mutates(i))
        node.inputs[i] = other_memory(node, i);
    }
    for (Result& result : node.results) {
      const ValueId copy = add(result.value);
      if (again_[result.value]) {
        copy_of_[result.value] = copy;
        named_at_[result.value] = at;
      }
      result.value = copy;
    }
    made_.cost += known_.cost(maker);
    made_.graph.nodes.push_back(std::move(node));
  }

  // Running statistics were moved by the batch, once. A copy moves numbers of their type that nobody reads.
  ValueId other_memory(const Node& node, std::size_t i) {
    const ValueId other = add(node.inputs[i]);
    made_.graph.nodes.push_back(
        {.op = &sluice::detail::k_copy, .inputs = {node.inputs[1]}, .results = {{other, true}}, .site = node.site});
    return other;
  }

  ValueId seen(ValueId view, std::size_t at) {
    Node node = graph_.nodes[known_.maker(view)];
    const ValueId base = available(node.inputs[0], at), known = copy_of_[view];
    if (base == node.inputs[0])
      return view;
    if (known != k_none && made_.graph.root(known) == made_.graph.root(base))
      return known;
    const ValueId copy = add(view);
    made_.graph.values[copy].root = made_.graph.root(base);
    copy_of_[view] = copy;
    node.inputs[0] = base;
    node.results[0].value = copy;
    made_.graph.nodes.push_back(std::move(node));
    return copy;
  }

  ValueId add(ValueId like) {
    const auto id = static_cast<ValueId>(made_.graph.values.size());
    made_.graph.values.push_back({.spec = graph_.values[like].spec, .root = id});
    return id;
  }

  const Graph& graph_;
  const Recomputable& known_;
  const std::vector<bool>& again_;
  std::vector<ValueId> copy_of_;       // the last one
  std::vector<std::size_t> named_at_;  // by root: in front of which node that was wanted last
  Recomputed made_;
};

}  // namespace

Recomputed recomputed(const Recomputable& known, const std::vector<bool>& again) {
  return Rewriting(known, again).run();
}

}  // namespace sluice::graph
