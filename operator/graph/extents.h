#pragma once

#include <span>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// The graph for inputs of other shapes, node for node: the same numbers, attributes, lines and constants, with what
/// inference says of shapes and of the random numbers that nodes take. It is the graph that tracing would give if the
/// program asks no array for extents that are others now. `shapes`: of the first inputs; each further one has the shape
/// of the value that `like` names, in order: gradients have their outputs'. Throws ValueError for other numbers of
/// inputs; ShapeError (DTypeError, ValueError, IndexError, UnsupportedError where that is why) naming node, operator
/// and the line of its call, where a node does not take such inputs, or an array now is what operators take for
/// something else than before: of an extent 0 or 1 or no longer, row by row in memory or no longer.
SLUICE_API Graph with_extents(const Graph& graph, std::span<const Shape> shapes, std::span<const ValueId> like = {});

}  // namespace sluice::graph
