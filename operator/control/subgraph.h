#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/operator/attributes.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/memory_plan.h>

// Graphs that are attributes of a node: bodies of loops, branches.
namespace sluice::control {

struct GradientNode;
struct ReadyBody;

/// An immutable graph that takes all it uses as inputs, and the plans that run it: with options as they are by default,
/// whatever those of a plan around it are, so it rounds as by hand. Copies share them. As an attribute
/// it is text: the JSON of docs/graph_file.md.
class SLUICE_API Subgraph {
 public:
  /// None: of attributes that were not given.
  Subgraph() = default;
  /// Throws ValueError for a graph that cannot be, or with constants; UnsupportedError for one that draws random
  /// numbers or writes its inputs: it could not run again and again.
  explicit Subgraph(graph::Graph graph);

  bool empty() const noexcept { return state_ == nullptr; }
  /// Copies have the same.
  const void* address() const noexcept { return state_.get(); }
  const graph::Graph& graph() const noexcept;
  /// Does it take arrays of these shapes, types and devices?
  bool takes(std::span<const ArraySpec> inputs) const noexcept;
  /// What it gives, without waiting; by a plan that is kept. Any thread. Throws what Plan::run() throws.
  Arrays run(std::span<const NDArray> inputs, SourceLocation site) const;
  /// What such a plan would run, for who has other memory for it. Kept as long as the subgraph is. Any thread.
  const ReadyBody& ready() const;
  /// What `make` gave the first time that it was asked for under that key.
  const GradientNode& gradient(const std::string& key, const std::function<GradientNode()>& make) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// How the gradient of a node with subgraphs is computed: by another one, and arrays that it uses beside what the
/// gradient is given.
struct GradientNode {
  Attributes attributes = {};
  std::vector<NDArray> captured = {};
  Subgraph beside = {};  // kept as long as this is: what the key names by address
};

/// A subgraph after a plan's passes, and the memory of what its nodes make one after the other.
struct ReadyBody {
  graph::Graph graph;
  graph::MemoryPlan memory;
  std::size_t bytes_of_branches = 0;  // see control::bytes_of_branches()
};

/// The same for inputs that are others, if they are.
SLUICE_API Subgraph respecified(const Subgraph& subgraph, std::span<const ArraySpec> inputs);

/// An attribute field's value: text, "" of none.
SLUICE_API AttributeValue value_of(const Subgraph& field);
/// False where the value is no text of a graph.
SLUICE_API bool assign(Subgraph& field, const AttributeValue& value);

/// A node's subgraphs by the names of its attributes; of most operators none.
SLUICE_API std::vector<std::pair<std::string, Subgraph>> subgraphs_of(const graph::Node& node);

}  // namespace sluice::control
