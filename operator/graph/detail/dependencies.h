#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Which nodes must stay behind which if the order of a graph's nodes changes: those that name a value behind its
/// maker, what touches memory that another one writes as it is, and those that draw random numbers among themselves.
struct Dependencies {
  explicit Dependencies(const Graph& graph);

  std::vector<std::vector<std::size_t>> after;     // by node: who waits for it, each once
  std::vector<std::optional<std::size_t>> maker;   // by value
  std::vector<std::vector<std::size_t>> named_by;  // by value: nodes that read it or write into it, not its maker

 private:
  void add(std::size_t before, std::size_t node);
  void add_names(const Graph& graph, std::size_t at);
  void add_memory(const Graph& graph);
  void add_random(const Graph& graph);
};

}  // namespace sluice::graph
