#pragma once

#include <string>

#include <sluice/operator/graph/graph.h>

// What nodes and values are called in texts and pictures.
namespace sluice::graph {

/// "%5", of a constant "@5".
std::string name_of(const Graph& graph, ValueId id);
/// "%5: float32 (32, 10)".
std::string typed(const Graph& graph, ValueId id);
/// " {axis=1, keepdims=false}"; empty for none.
std::string attributes_of(const Node& node);

}  // namespace sluice::graph
