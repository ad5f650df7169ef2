#pragma once

#include <functional>
#include <span>
#include <vector>

#include <sluice/operator/control/control.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::control {

/// A body as a graph: its inputs are those that it was traced with, and behind them what it uses beside.
struct Body {
  graph::Graph graph = {};
  std::vector<NDArray> captured = {};
};

/// Calls `program` once, with arrays without memory. What it uses from outside is captured.
Body trace_body(const std::function<Arrays(const Arrays&)>& program, std::span<const ArraySpec> inputs);

/// Why the graph cannot be run turn after turn as the program would be: it draws random numbers, or writes what is
/// there before it runs. Null if it can.
const char* why_not_repeatable(const graph::Graph& graph);

/// Shapes, types and devices of what `body` gives on such entries of data, and of what it hands on. Throws as the loop
/// does for states that become others.
std::vector<ArraySpec> specs_of_outputs(
    const ForeachBody& body, const std::vector<ArraySpec>& entries, const Arrays& states, const char* op);

/// Shapes, types and devices.
std::vector<ArraySpec> specs_of(std::span<const NDArray> arrays);

}  // namespace sluice::control
