#pragma once

#include <functional>

#include <sluice/engine/source_location.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/control/attributes.h>
#include <sluice/operator/graph/graph.h>

// Branches that a GPU takes by itself, as part of the CUDA graph of a plan's segment.
namespace sluice::control {

/// May the node be part of a CUDA graph of its device: a cond whose bodies may, of a predicate that is there?
bool is_graph_branch(const graph::Graph& graph, const graph::Node& node);

/// Where a region records, what the pushes of `first` and `second` do: a replay does the one where the one element of
/// `predicate` is not zero, the other where it is. Throws what they throw and std::bad_alloc.
void push_branch(
    const NDArray& predicate,
    const std::function<void()>& first,
    const std::function<void()>& second,
    SourceLocation site);

}  // namespace sluice::control
