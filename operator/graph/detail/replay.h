#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Arrays of values in place of those that the graph says: random states, constants; and for the results of a node, all
/// of them or none, where it is to leave them.
using GivenValues = std::span<const std::pair<ValueId, NDArray>>;

struct ReplayOptions {
  bool numbered = false;                                       // errors name the node
  std::function<void(std::size_t, const Arrays&)> after = {};  // each node, with its number and what it gave
  GivenValues given = {};
  const std::vector<bool>* only = nullptr;  // these nodes, by number
};

/// The graph's calls made again on `inputs`, one by one: run, or taken by the thread's sink. Nothing is compared with
/// what the graph says of shapes, types and devices. Values go when their last reader has run. Errors are those of
/// invoke().
Arrays replay(const Graph& graph, std::span<const NDArray> inputs, const ReplayOptions& options = {});

}  // namespace sluice::graph
