#include <algorithm>
#include <utility>

#include <sluice/operator/control/detail/branches.h>
#include <sluice/operator/graph/detail/memory_use.h>
#include <sluice/operator/graph/detail/order.h>
#include <sluice/operator/graph/memory_plan.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

namespace {

/// Node by node, as the engine may run them.
class Planner {
 public:
  Planner(const MemoryUse& use, Sharing sharing) : graph_(use.graph()), use_(use) {
    if (sharing == Sharing::proven)
      order_.emplace(graph_);
  }

  void run(const std::vector<ValueId>& values, MemoryPlan& plan) {
    for (const ValueId value : values)
      place(value, use_.users(value).front(), plan);
  }

 private:
  bool is_free(std::size_t slot, ValueId value, std::size_t at) const {
    const ValueId held = held_[slot];
    const std::vector<std::size_t>& users = use_.users(held);
    if (use_.stays(held) || users.back() > at || (users.back() == at && !use_.may_write_over(at, value, held)))
      return false;
    return !order_ || std::all_of(users.begin(), users.end(), [&](std::size_t user) {
      return user == at || order_->is_before(user, at);
    });
  }

  // The smallest that holds it, otherwise the largest, which grows.
  void place(ValueId value, std::size_t at, MemoryPlan& plan) {
    const ArraySpec& spec = graph_.values[value].spec;
    const std::size_t bytes = bytes_of(spec);
    std::optional<std::size_t> best;
    for (std::size_t slot = 0; slot < held_.size(); ++slot) {
      if (plan.slots[slot].device != spec.device || !is_free(slot, value, at))
        continue;
      if (!best || is_better(plan.slots[slot].bytes, plan.slots[*best].bytes, bytes))
        best = slot;
    }
    if (!best) {
      best = plan.slots.size();
      plan.slots.push_back({spec.device, 0});
      held_.push_back(value);
    }
    held_[*best] = value;
    plan.slots[*best].bytes = std::max(plan.slots[*best].bytes, bytes);
    plan.slot_of[value] = best;
  }

  static bool is_better(std::size_t bytes, std::size_t best, std::size_t wanted) {
    const bool fits = bytes >= wanted, best_fits = best >= wanted;
    return fits != best_fits ? fits : fits ? bytes < best : bytes > best;
  }

  const Graph& graph_;
  const MemoryUse& use_;
  std::optional<NodeOrder> order_;  // of what is proven
  std::vector<ValueId> held_;       // by slot: who has it now
};

}  // namespace

std::size_t bytes_of(const MemoryPlan& plan) noexcept {
  std::size_t bytes = plan.bytes_apart;
  for (const MemoryPlan::Slot& slot : plan.slots)
    bytes += slot.bytes;
  return bytes;
}

MemoryPlan plan_memory(const Graph& graph, const std::vector<bool>& apart, Sharing sharing) {
  MemoryPlan plan;
  plan.slot_of.resize(graph.values.size());
  std::vector<ValueId> shared;  // in the order in which they are made
  for (const Node& node : graph.nodes) {
    for (const auto [id, made] : node.results) {
      if (!made || node.is_view())
        continue;
      const std::size_t bytes = bytes_of(graph.values[id].spec);
      const bool is_apart = apart[id] || sharing == Sharing::none;
      plan.bytes_without_sharing += bytes;
      plan.bytes_apart += is_apart ? bytes : 0;
      if (!is_apart)
        shared.push_back(id);
    }
  }
  const MemoryUse use(graph);
  MemoryPlan by_size = plan;
  Planner(use, sharing).run(shared, plan);
  if (sharing != Sharing::in_order)
    return plan;
  place_by_size(use, std::move(shared), by_size);
  return bytes_of(by_size) < bytes_of(plan) ? by_size : plan;
}

std::vector<bool> values_apart(const Graph& graph) {
  std::vector<bool> apart(graph.values.size());
  for (const ValueId output : graph.outputs) {
    const ValueId root = graph.root(output);
    apart[root] = graph.values[root].source == Source::result;
  }
  return apart;
}

std::size_t planned_bytes(const Graph& graph, Sharing sharing, bool without_derived) {
  std::vector<bool> apart = values_apart(graph);
  const std::vector<bool> kept = without_derived ? derived_nodes(graph) : invariant_nodes(graph);
  std::size_t bytes_kept = 0;
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    for (const auto [id, made] : graph.nodes[at].results) {
      if (!kept[at] || !made || graph.nodes[at].is_view())
        continue;
      apart[id] = true;
      bytes_kept += bytes_of(graph.values[id].spec);
    }
  }
  return bytes_of(plan_memory(graph, apart, sharing)) + control::bytes_of_branches(graph) - bytes_kept;
}

}  // namespace sluice::graph
