#include <algorithm>
#include <map>
#include <string>

#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

std::vector<bool> rewritten_roots(const Graph& graph) {
  std::vector<bool> made(graph.values.size()), rewritten(graph.values.size());
  for (const Node& node : graph.nodes) {
    for_each_write(graph, node, [&](ValueId root) {
      if (made[root] || is_outside(graph, root))
        rewritten[root] = true;
      made[root] = true;
    });
  }
  return rewritten;
}

namespace {

// Operator, attributes and operands as text. A number in an attribute is written so that it reads as the same value.
std::string key_of(const Node& node) {
  std::string key = message(static_cast<const void*>(node.op), '(');
  for (const ValueId input : node.inputs)
    key += message(input, ',');
  for (const NamedValue& field : node.attributes.values())
    key += field.name + '=' + to_string(field.value) + ';';
  return key;
}

// Numbers drawn twice are two; what is written in place is not the same before and after.
bool may_be_shared(const Graph& graph, const Node& node, const std::vector<bool>& rewritten) {
  if (node.has_destinations() || node.results.empty() || node.op->random != nullptr)
    return false;
  bool pure = true;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    pure = pure && !node.mutates(i);
  for (const Result& result : node.results)
    pure = pure && !rewritten[graph.root(result.value)];
  for_each_read(graph, node, [&](ValueId root) { pure = pure && !rewritten[root]; });
  return pure;
}

// The caller may write what it is given: two arrays stay two. By value: an output, or the memory of one.
std::vector<bool> given_out(const Graph& graph) {
  std::vector<bool> given(graph.values.size());
  for (const ValueId output : graph.outputs)
    given[output] = given[graph.root(output)] = true;
  return given;
}

// Takes what `first` gives in the place of what `second` would give. What the caller would be given twice is a copy.
void take_first(
    const Node& first, const Node& second, std::vector<bool>& given, std::vector<ValueId>& stands_for, Graph& less) {
  std::vector<Node> copies;
  for (std::size_t i = 0; i < second.results.size(); ++i) {
    const ValueId stays = first.results[i].value, goes = second.results[i].value;
    if (given[stays] && given[goes]) {
      copies.push_back(
          {.op = &sluice::detail::k_copy, .inputs = {stays}, .results = {{goes, true}}, .site = second.site});
      continue;
    }
    stands_for[goes] = stays;
    given[stays] = given[stays] || given[goes];
  }
  less.nodes.insert(less.nodes.end(), copies.begin(), copies.end());  // which `first` may lie among
}

// Is one of its results given out as another one's is, and a copy of that no cheaper than the call?
bool stays_call(const Node& first, const Node& second, const std::vector<bool>& given) {
  if (!second.op->elementwise && !second.is_view())
    return false;
  for (std::size_t i = 0; i < second.results.size(); ++i) {
    if (given[first.results[i].value] && given[second.results[i].value])
      return true;
  }
  return false;
}

}  // namespace

Graph without_repetitions(const Graph& graph) {
  const std::vector<bool> rewritten = rewritten_roots(graph);
  Graph less{.values = graph.values, .inputs = graph.inputs, .outputs = graph.outputs};
  std::vector<ValueId> stands_for(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id)
    stands_for[id] = id;
  std::vector<bool> given = given_out(graph);
  std::map<std::string, std::size_t> known;  // by key: a node of `less`
  for (Node node : graph.nodes) {
    for (ValueId& input : node.inputs)
      input = stands_for[input];
    for (Result& result : node.results)
      result.value = stands_for[result.value];
    if (may_be_shared(graph, node, rewritten)) {
      const auto [found, is_new] = known.emplace(key_of(node), less.nodes.size());
      if (!is_new && !stays_call(less.nodes[found->second], node, given)) {
        take_first(less.nodes[found->second], node, given, stands_for, less);
        continue;
      }
    }
    less.nodes.push_back(std::move(node));
  }
  for (ValueId& output : less.outputs)
    output = stands_for[output];
  for (Value& value : less.values)
    value.root = less.values[stands_for[value.root]].root;
  for (ValueId id = 0; id < less.values.size(); ++id) {
    if (stands_for[id] != id)
      less.values[id].root = id;  // left over
  }
  return less;
}

}  // namespace sluice::graph
