#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// An attribute's value as a file writes it; `here`: the device that is the reader's.
std::string value_text(const AttributeValue& value, std::optional<Device> here);

/// Values and nodes of a graph as a file writes them.
class NodeText {
 public:
  /// `here`: as nested_text() takes it.
  NodeText(const Graph& graph, std::optional<Device> here)
      : graph_(graph), here_(here), numbers_(graph.values.size(), k_none) {}

  /// Gives a value its number, the next: "value", "shape" and so on.
  std::string define(ValueId id);
  /// The number that it has. Throws ValueError where it has none.
  std::string numbered(ValueId id) const;
  /// Throws ValueError for an operator that find_operator() does not know; without `here` its address stands there.
  std::string line_of(const Node& node);

 private:
  static constexpr ValueId k_none = ~ValueId{0};

  std::string device_of(const ArraySpec& spec) const;
  std::string operands(const Node& node) const;
  std::string attributes(const Node& node) const;

  const Graph& graph_;
  const std::optional<Device> here_;
  std::vector<ValueId> numbers_;
  ValueId next_ = 0;
};

}  // namespace sluice::graph
