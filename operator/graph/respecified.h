#pragma once

#include <span>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// The same program for inputs of other shapes, types or devices: every call is inferred anew, views included, and what
/// no kernel is for there is composed. Constants stay the arrays that they are. `graph` need not be verified, as long
/// as its nodes read what stands before them; the result is. Throws ValueError unless there is a spec an input;
/// ShapeError (DTypeError, DeviceError, UnsupportedError, ValueError where that is why) naming node, operator and the
/// line of its call where the program cannot be one for such inputs. An extent that an attribute holds stays: a program
/// that asks for an array of 32 rows asks for 32.
SLUICE_API Graph with_inputs(const Graph& graph, std::span<const ArraySpec> specs);

/// The graph with its constants as inputs behind the ones that it has, in the order of their numbers; those that no
/// node uses and that are no outputs are left out. `constants` gets them. Throws UnsupportedError, naming the node,
/// where the graph writes one.
SLUICE_API Graph with_constants_as_inputs(const Graph& graph, std::vector<NDArray>& constants);

/// Do both compute the same: the same operators with the same attributes on values of the same numbers and specs?
/// Graphs that with_inputs() made are numbered alike if they are alike. Lines of calls and arrays of constants are not
/// compared.
SLUICE_API bool is_same_program(const Graph& a, const Graph& b);

}  // namespace sluice::graph
