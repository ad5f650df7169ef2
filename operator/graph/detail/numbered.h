#pragma once

#include <cstddef>
#include <functional>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Runs what a node says of other inputs than it was traced with. Errors that it throws name number, operator and line
/// of the node; they are of shapes in the end, but for types, devices and values.
void run_numbered(const Graph& graph, std::size_t at, const std::function<void()>& run);

}  // namespace sluice::graph
