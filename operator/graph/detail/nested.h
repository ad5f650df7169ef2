#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sluice/engine/device.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// A graph that is an attribute of a node, as the object that stands there in a graph file. With a device `here`, what
/// is there is written as being where the program runs, and lines of calls are; without one neither: equal texts are
/// equal programs.
std::string nested_text(const Graph& graph, std::optional<Device> here);
/// The graph of a text that was written without a device. Throws FileError where it is none; values are not inferred.
Graph from_nested_text(std::string_view text);

}  // namespace sluice::graph
