#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <sluice/operator/control/detail/bound_bodies.h>
#include <sluice/operator/graph/graph.h>

// Branches and loops that a GPU chooses by itself, as part of the CUDA graph of a plan's segment.
namespace sluice::control {

/// May the node be part of a CUDA graph of its device: a cond or a while_loop on one GPU whose bodies may?
bool is_graph_branch(const graph::Graph& graph, const graph::Node& node);
/// What the bodies of such nodes take for what they make, beside the nodes' results.
std::size_t bytes_of_branches(const graph::Graph& graph);
/// Such a node with memory; null where it writes what it reads. Throws OutOfMemory.
std::unique_ptr<BoundBodies> bound_bodies(
    const graph::Node& node, std::span<const NDArray> inputs, std::span<const NDArray> results, Engine& engine);

}  // namespace sluice::control
