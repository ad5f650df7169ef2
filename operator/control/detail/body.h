#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
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

/// An array whose gradient is asked for: an input of a body, by number, or one that it has not, whose gradient is
/// zeros.
struct Wanted {
  std::optional<std::size_t> input = {};
  ArraySpec spec = {};  // of zeros
};

/// The gradients of `wanted` as a graph of the body's inputs, of the gradients of those outputs that `heads` names, and
/// of what is captured. It computes the body again. Recorded, and so to be differentiated again, as the thread records.
Body derive(const graph::Graph& body, const std::vector<Wanted>& wanted, const std::vector<bool>& heads);

/// What tells one such question from another.
std::string key_of(const std::vector<bool>& wanted, const std::vector<bool>& heads);

/// Throws UnsupportedError where the body cannot be part of a graph as `what` of `op`.
void check_repeatable(const char* op, const char* what, const Body& body);

/// Why the graph cannot be run turn after turn as the program would be: it draws random numbers, or writes what is
/// there before it runs. Null if it can.
const char* why_not_repeatable(const graph::Graph& graph);

/// Shapes, types and devices of what `body` gives on such entries of data, and of what it hands on. Throws as the loop
/// does for states that become others.
std::vector<ArraySpec> specs_of_outputs(
    const ForeachBody& body, const std::vector<ArraySpec>& entries, const Arrays& states, const char* op);

/// Shapes, types and devices. Of a graph's values.
std::vector<ArraySpec> specs_of(const graph::Graph& graph, std::span<const graph::ValueId> ids);
/// Of arrays.
std::vector<ArraySpec> specs_of(std::span<const NDArray> arrays);

}  // namespace sluice::control
