#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/operator/graph/detail/json_place.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Reads values and nodes of a graph as NodeText writes them. Throws as from_json() says.
class NodeReader {
 public:
  /// All three as long as the reader: the file's name, where the program runs, and the graph that is to be filled.
  NodeReader(const std::string& name, Device device, Graph& graph) : name_(name), device_(device), graph_(graph) {}

  void add_input(const JsonPlace& place);
  void add_node(const JsonPlace& place);
  /// An attribute's value, as value_text() writes it.
  AttributeValue value_of(const JsonPlace& place) const;
  /// The value of that number.
  ValueId known(const JsonPlace& place) const;

 private:
  ArraySpec spec_of(const JsonPlace& place) const;
  Device device_of(const JsonPlace& place) const;
  ValueId define(const JsonPlace& place, ArraySpec spec, Source source);
  ValueId operand(const JsonPlace& place);
  void check_view(const JsonPlace& place, const Node& node);
  Attributes attributes_of(const Operator& op, const JsonPlace& place) const;
  SourceLocation site_of(const JsonPlace& place) const;

  const std::string& name_;
  const Device device_;
  Graph& graph_;
  std::vector<ValueId> ids_ = {};  // of the file's numbers
  std::size_t shapes_ = 0;         // values that have no number
};

/// A graph that is an attribute, its nodes inferred.
Graph read_nested(const JsonPlace& place, const std::string& name, Device device);
/// Infers all nodes anew. Throws ShapeError where a result is not what the graph says, and what invoke() throws, both
/// naming the node.
void check_program(const Graph& graph);

}  // namespace sluice::graph
