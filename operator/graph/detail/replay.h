#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// The graph's calls made again on `inputs`, one by one: run, or taken by the thread's sink. Nothing is compared with
/// what the graph says of shapes, types and devices. Values go when their last reader has run. Errors are those of
/// invoke(), and name the node where `numbered`. `after` each node gets its number and what it gave.
Arrays replay(
    const Graph& graph,
    std::span<const NDArray> inputs,
    bool numbered = false,
    const std::function<void(std::size_t, const Arrays&)>& after = {});

}  // namespace sluice::graph
