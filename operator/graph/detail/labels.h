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
/// The same, but of a fused node its calls, in the graph's own names: " {t0 = multiply(%0, @1); %5 = relu(t0)}".
std::string details_of(const Graph& graph, const Node& node);
/// "dense {flatten=true}"; of a fused node "fused: multiply, relu".
std::string label_of(const Node& node);

}  // namespace sluice::graph
