#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// When the memory of values is used, if nodes run in their order. Views use nothing themselves.
struct Lives {
  explicit Lives(const Graph& graph);

  std::vector<std::optional<std::size_t>> maker;  // by value, views too: a node
  std::vector<std::vector<std::size_t>> uses;     // by root: nodes that make, read or write it; the caller comes behind
  std::vector<std::vector<std::size_t>> rewrites;  // by root: of those the ones that write it and did not make it
};

}  // namespace sluice::graph
