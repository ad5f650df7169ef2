#include <optional>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

/// Who makes each value, and how often it and its memory are named.
struct Uses {
  explicit Uses(const Graph& graph)
      : maker(graph.values.size()), count(graph.values.size()), root_count(graph.values.size()) {
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
      for (const ValueId id : graph.nodes[at].inputs)
        add(graph, id);
      for (const auto [id, made] : graph.nodes[at].results) {
        add(graph, id);
        if (made)
          maker[id] = at;
      }
    }
    for (const ValueId id : graph.outputs)
      add(graph, id);
  }
  void add(const Graph& graph, ValueId id) {
    ++count[id];
    ++root_count[graph.root(id)];
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
  if (node.op != &sluice::detail::k_copy || !node.attributes.empty() || !node.has_destinations())
    return std::nullopt;
  const ValueId from = node.inputs[0], to = node.results[0].value;
  const std::optional<std::size_t> made = uses.maker[from];
  // Named by the one that makes it and by this one that reads it.
  if (!made || uses.count[from] != 2 || uses.root_count[from] != 2 || graph.root(from) != from)
    return std::nullopt;
  const Node& maker = graph.nodes[*made];
  bool touches_it = false;
  const auto touch = [&](ValueId root) { touches_it = touches_it || root == graph.root(to); };
  for_each_read(graph, maker, touch);
  for_each_write(graph, maker, touch);
  if (maker.is_view() || touches_it || !covers_memory(graph.values[to]) ||
      is_touched(graph, graph.root(to), *made, copy))
    return std::nullopt;
  return made;
}

}  // namespace

Graph with_direct_writes(const Graph& graph) {
  Graph direct = graph;
  std::vector<bool> dropped(graph.nodes.size());
  const Uses uses(graph);
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const std::optional<std::size_t> made = maker_of(direct, uses, at);
    if (!made)
      continue;
    for (Result& result : direct.nodes[*made].results) {
      if (result.value == graph.nodes[at].inputs[0])
        result = graph.nodes[at].results[0];
    }
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

Graph optimised(const Graph& graph, Rounding rounding, TakenReductions taken) {
  Graph now = graph;
  const auto run = [&now](const auto& pass) {
    now = pass(now);
    verify(now);
  };
  for (const auto pass :
       {without_identities, without_repetitions, without_dead_code, with_direct_writes, with_combined_calls})
    run(pass);
  run([&](const Graph& before) { return with_epilogues(before, rounding); });
  for (const auto pass :
       {with_pooled_convolutions,
        with_unpooled_relus,
        with_norm_relus,
        with_norm_residuals,
        with_norm_casts,
        with_norm_sums,
        with_biases_apart,
        with_bias_sums,
        with_fused_pointwise})
    run(pass);
  run([&](const Graph& before) { return with_fused_reductions(before, taken); });
  return now;
}

std::vector<bool> invariant_nodes(const Graph& graph) {
  const std::vector<bool> rewritten = rewritten_roots(graph);
  std::vector<bool> invariant_value(graph.values.size()), found(graph.nodes.size());
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    bool same = !node.has_destinations() && node.op->random == nullptr && !node.results.empty();
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      same = same && !node.mutates(i) && (node.sees_shape_only(i) || invariant_value[node.inputs[i]]);
    for (const Result& result : node.results)
      same = same && !rewritten[graph.root(result.value)];
    found[at] = same;
    for (const Result& result : node.results)
      invariant_value[result.value] = same;
  }
  return found;
}

}  // namespace sluice::graph
