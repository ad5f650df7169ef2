#pragma once

#include <cstddef>
#include <vector>

#include <sluice/operator/graph/detail/dependencies.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// What a group may be at most: a kernel for it should fit registers and arguments.
inline constexpr std::size_t k_most_fused_inputs = 8, k_most_fused_outputs = 4, k_most_fused_calls = 32;

/// Can the node be a call of a program?
bool is_fusable(const Graph& graph, const Dependencies& order, std::size_t at);

/// Nodes that run as one: `nodes` in order, what they read from outside and leave for others.
struct FusionGroup {
  std::vector<std::size_t> nodes = {};
  std::vector<ValueId> inputs = {};
  std::vector<Result> outputs = {};
};

/// Every node is in one group, by itself where nothing can be gained. No group waits for another that waits for it.
std::vector<FusionGroup> fusion_groups(const Graph& graph, const Dependencies& order);

}  // namespace sluice::graph
