#pragma once

#include <cstddef>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// The same graph, in which nodes that look at the shape of a result alone name a value that is nothing but that shape:
/// they do not keep the result from going.
Graph with_shapes_apart(const Graph& graph);
/// The same behind so many nodes alone, and of inputs too.
Graph with_shapes_apart_behind(const Graph& graph, std::size_t nodes);

}  // namespace sluice::graph
