#pragma once

#include <string>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/memory_plan.h>

// Graphs and what they need of memory as pictures that any browser shows.
namespace sluice::graph {

/// The nodes as boxes, each below all that it needs, what they read and write beside as ovals; thick lines write.
/// What a node is told, and for which line of the user's it stands, shows where the pointer rests.
SLUICE_API std::string to_svg(const Graph& graph);

/// What plan_memory() gave for this graph: from left to right the nodes in their order, from top to bottom the slots,
/// as high as they have bytes (but at least so high that they are seen); a rectangle is a value, from the node that
/// makes it to the last one that uses it. Below them, grey, results with memory of their own. Inputs and constants have
/// theirs elsewhere and are not shown.
SLUICE_API std::string memory_to_svg(const Graph& graph, const MemoryPlan& plan);

}  // namespace sluice::graph
