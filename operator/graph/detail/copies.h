#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <sluice/operator/graph/graph.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

/// Does the node make a new array, of another type maybe, of the one that it reads, on the same device?
inline bool makes_copy(const Graph& graph, const Node& node) {
  if (node.op != &sluice::detail::k_copy && node.op != &sluice::detail::k_cast)
    return false;
  return node.inputs.size() == 1 && node.results.size() == 1 && node.results[0].made &&
         graph.values[node.results[0].value].spec.device == graph.values[node.inputs[0]].spec.device;
}

/// Does the value lie row by row, as far as nodes say, of which `maker` names one a value? Some calls take as it lies
/// what is spread out or turned; those that do not would copy it first.
inline bool lies_whole(const Graph& graph, const std::vector<std::optional<std::size_t>>& maker, ValueId value) {
  for (auto from = maker[value]; from; from = maker[value]) {
    const Node& node = graph.nodes[*from];
    if (!node.is_view())
      return true;
    const std::string_view view = node.op->name;
    if (view != "reshape" && view != "expand_dims" && view != "squeeze")
      return false;
    value = node.inputs[0];
  }
  return true;
}

}  // namespace sluice::graph
