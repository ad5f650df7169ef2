#pragma once

// Is a memory plan right? Worked out here anew, by pairs of nodes, apart from what the planner asks.
#include <cstddef>
#include <string>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/graph/memory_plan.h>

namespace sluice::test {

/// Which nodes of a graph come before which when all run that may: two that touch the same memory, one of them writing,
/// run in their order, as the engine's Vars make tasks do.
class ParallelSchedule {
 public:
  explicit ParallelSchedule(const graph::Graph& graph) : touched_(graph.nodes.size()), before_(graph.nodes.size()) {
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
      note(graph, at);
      before_[at].resize(graph.nodes.size());
      for (std::size_t earlier = 0; earlier < at; ++earlier) {
        if (!must_wait(earlier, at))
          continue;
        before_[at][earlier] = true;
        for (std::size_t first = 0; first < earlier; ++first)
          before_[at][first] = before_[at][first] || before_[earlier][first];
      }
    }
  }

  /// Is `first` always done when `second` begins?
  bool is_before(std::size_t first, std::size_t second) const { return before_[second][first]; }
  /// Nodes that touch the memory of a root, in their order.
  std::vector<std::size_t> users(graph::ValueId root) const {
    std::vector<std::size_t> found;
    for (std::size_t at = 0; at < touched_.size(); ++at) {
      for (const Touch& touch : touched_[at]) {
        if (touch.root == root && (found.empty() || found.back() != at))
          found.push_back(at);
      }
    }
    return found;
  }

 private:
  struct Touch {
    graph::ValueId root;
    bool writes;
  };
  void note(const graph::Graph& graph, std::size_t at) {
    const graph::Node& node = graph.nodes[at];
    if (node.is_view())
      return;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.sees_shape_only(i))
        touched_[at].push_back({graph.root(node.inputs[i]), node.mutates(i)});
    }
    for (const graph::Result& result : node.results)
      touched_[at].push_back({graph.root(result.value), true});
  }
  bool must_wait(std::size_t earlier, std::size_t later) const {
    for (const Touch& a : touched_[earlier]) {
      for (const Touch& b : touched_[later]) {
        if (a.root == b.root && (a.writes || b.writes))
          return true;
      }
    }
    return false;
  }

  std::vector<std::vector<Touch>> touched_;
  std::vector<std::vector<bool>> before_;
};

/// May the node that makes `later` write it over `earlier`, which it reads?
inline bool may_be_in_place(const graph::Graph& graph, std::size_t at, graph::ValueId earlier, graph::ValueId later) {
  const graph::Node& node = graph.nodes[at];
  std::size_t result = 0;
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    if (graph.root(node.results[i].value) == earlier)
      return false;
    if (node.results[i].value == later)
      result = i;
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {  // another view of it lies otherwise
    if (graph.root(node.inputs[i]) == earlier &&
        (node.inputs[i] != earlier || !detail::writes_over(*node.op, i, result)))
      return false;
  }
  const ArraySpec &from = graph.values[earlier].spec, &to = graph.values[later].spec;
  return from.shape == to.shape && size_of(from.dtype) == size_of(to.dtype);
}

/// What is wrong with a plan of a graph's memory; "" if nothing is. With Sharing::proven nodes that may run beside each
/// other must not have memory in common which the graph does not give them, in order none that is still needed.
inline std::string memory_fault(const graph::Graph& graph, const graph::MemoryPlan& plan, graph::Sharing sharing) {
  const ParallelSchedule schedule(graph);
  std::vector<bool> is_given(graph.values.size());
  for (const graph::ValueId output : graph.outputs)
    is_given[graph.root(output)] = true;
  std::vector<std::vector<graph::ValueId>> in_slot(plan.slots.size());  // as they are made
  for (const graph::Node& node : graph.nodes) {
    for (const auto [id, made] : node.results) {
      if (made && !node.is_view() && plan.slot_of[id])
        in_slot[*plan.slot_of[id]].push_back(id);
    }
  }
  for (std::size_t slot = 0; slot < in_slot.size(); ++slot) {
    for (std::size_t j = 0; j < in_slot[slot].size(); ++j) {
      const graph::ValueId later = in_slot[slot][j];
      const ArraySpec& spec = graph.values[later].spec;
      const auto bytes = static_cast<std::size_t>(spec.shape.size()) * size_of(spec.dtype);
      if (bytes > plan.slots[slot].bytes || !(plan.slots[slot].device == spec.device))
        return message("%", later, " does not fit slot ", slot);
      const std::size_t made_at = schedule.users(later).front();
      for (std::size_t i = 0; i < j; ++i) {
        const graph::ValueId earlier = in_slot[slot][i];
        const std::string pair = message("%", earlier, " and %", later, " in slot ", slot);
        if (is_given[earlier])
          return message(pair, ": the first is an output");
        for (const std::size_t user : schedule.users(earlier)) {
          const bool done =
              sharing == graph::Sharing::proven ? user < made_at && schedule.is_before(user, made_at) : user < made_at;
          if (!done && !(user == made_at && may_be_in_place(graph, made_at, earlier, later)))
            return message(pair, ": node ", user, " may still use the first when node ", made_at, " makes the second");
        }
      }
    }
  }
  return {};
}

}  // namespace sluice::test
