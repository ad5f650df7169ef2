#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/memory_plan.h>

namespace sluice::graph {

/// A graph with an array for each value: what a plan runs.
class Binding {
 public:
  /// One call, ready.
  struct Step {
    const Operator* op;
    Arrays inputs;
    const Attributes* attributes;
    Arrays destinations;
    SourceLocation site;
    bool capturable;  // may be part of a CUDA graph
  };

  /// Makes all arrays, and runs the nodes that give the same each time. `graph` must outlive the binding.
  Binding(const Graph& graph, bool share_memory, Engine& engine);
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  /// Are the constants still where they were? backward() may exchange a gradient's memory.
  bool is_current() const;
  const std::vector<Step>& steps() const noexcept { return steps_; }
  const NDArray& array(ValueId value) const noexcept { return arrays_[value]; }
  const MemoryPlan& memory() const noexcept { return memory_; }
  /// Says where this run's random numbers begin, as if each node had drawn its own when it was reached.
  void draw(Engine& engine, SourceLocation site) const;
  /// For gradients that were recorded before: what the graph writes in memory of others is not what it was.
  void raise_versions() const;
  static void run(const Step& step);

 private:
  /// The states of all nodes on one device that take random numbers: (nodes, 2) of int64.
  struct RandomStates {
    NDArray states;
    std::vector<ValueId> values;
  };
  struct Held {
    ValueId constant;
    const void* memory;
  };

  void bind_sources(Engine& engine);
  void bind_random(Engine& engine, Device device);
  void bind_node(const Node& node, bool once, Engine& engine);
  void bind_view(const Node& node);
  NDArray result_of(const Node& node, ValueId id, const Arrays& inputs, Engine& engine);
  Arrays inputs_of(const Node& node) const;
  void note_written();

  const Graph& graph_;
  std::vector<bool> apart_;  // values of nodes that run once
  MemoryPlan memory_;
  Arrays slots_;
  std::vector<NDArray> arrays_;
  std::vector<Step> steps_;
  std::vector<RandomStates> random_;
  std::vector<Held> held_;
  std::vector<ValueId> written_;
};

}  // namespace sluice::graph
