#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// A program of operators as data: what tracing makes, passes turn into another one, and a plan runs.
namespace sluice::graph {

/// The place of a value in Graph::values.
using ValueId = std::uint32_t;

/// Where a value comes from: from the caller, from an array that was there when the graph was traced (a parameter),
/// from the state of the random numbers of one node, from a shape alone, or from a node.
enum class Source : std::uint8_t { input, constant, random, shape, result };

/// An array in the graph: a place in memory with a shape, which nodes may write more than once.
struct Value {
  Source source = Source::result;
  ArraySpec spec = {};
  ValueId root = 0;            // whose memory it sees: itself, but for views
  NDArray array = {};          // of a constant
  std::uint64_t counters = 0;  // of a random state: how many numbers its node takes
};

/// Where a node leaves a result: in a value that it makes, or in one that is there.
struct Result {
  ValueId value = 0;
  bool made = true;
};

/// One call of an operator.
struct Node {
  const Operator* op = nullptr;
  Attributes attributes = {};
  std::vector<ValueId> inputs = {};
  std::vector<Result> results = {};
  SourceLocation site = {};

  /// Does the node write its input `i` (running statistics, weights of an update)?
  SLUICE_API bool mutates(std::size_t i) const noexcept;
  /// Does it look at the shape of input `i` alone?
  SLUICE_API bool sees_shape_only(std::size_t i) const noexcept;
  bool is_view() const noexcept { return op->view != nullptr; }
  /// Does it write values that were there, beside inputs that it changes?
  SLUICE_API bool has_destinations() const noexcept;
};

/// Nodes in an order in which they can run: whatever a node reads was written by an earlier one, and of what two nodes
/// do with the same memory the order is kept. Passes take a graph and give another.
struct Graph {
  std::vector<Value> values = {};
  std::vector<Node> nodes = {};
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> outputs = {};

  ValueId root(ValueId value) const noexcept { return values[value].root; }
};

/// Throws ValueError, naming node and value, for a graph that cannot be: numbers beyond its values, a value that is
/// read before it is made or made twice, results of other shapes or types than inference says, a view of memory that is
/// not its input's, destinations that do not fit.
SLUICE_API void verify(const Graph& graph);

/// One line a node: "%5 = dense(%0, @1, @2) {flatten=true}  # layer 0 (Dense), called at train.cpp:31". % are values, @
/// constants.
SLUICE_API std::string to_text(const Graph& graph);
/// The same as a picture for Graphviz: `dot -Tsvg`.
SLUICE_API std::string to_dot(const Graph& graph);

}  // namespace sluice::graph
