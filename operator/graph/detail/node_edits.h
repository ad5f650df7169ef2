#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/operator/graph/detail/dependencies.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// A graph whose nodes a pass changes in place and drops: what it asks of the graph as it was.
class NodeEdits {
 public:
  explicit NodeEdits(Graph& edited)
      : graph(edited), order(edited), is_output_(edited.values.size()), gone_(edited.nodes.size()) {
    for (const ValueId output : edited.outputs)
      is_output_[output] = true;
  }

  const ArraySpec& spec(ValueId value) const { return graph.values[value].spec; }
  bool is_output(ValueId value) const { return is_output_[value]; }
  /// The node that alone names a value that is no output.
  std::optional<std::size_t> only_reader(ValueId value) const {
    const auto& named = order.named_by[value];
    return is_output_[value] || named.size() != 1 ? std::nullopt : std::optional(named.front());
  }
  /// Does a node from `first` on and before `end`, if it is not dropped, write the memory of the value?
  bool is_written(ValueId value, std::size_t first, std::size_t end) const {
    bool written = false;
    for (std::size_t at = first; at < end; ++at) {
      if (!gone_[at])
        for_each_write(graph, graph.nodes[at], [&](ValueId root) { written = written || root == graph.root(value); });
    }
    return written;
  }

  void drop(std::size_t node) { gone_[node] = true; }
  bool is_gone(std::size_t node) const { return gone_[node]; }
  /// Takes dropped nodes out of the graph. Places of nodes mean others then: the last call.
  void finish() {
    std::vector<Node> kept;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
      if (!gone_[at])
        kept.push_back(std::move(graph.nodes[at]));
    }
    graph.nodes = std::move(kept);
  }

  Graph& graph;
  const Dependencies order;

 private:
  std::vector<bool> is_output_, gone_;
};

}  // namespace sluice::graph
