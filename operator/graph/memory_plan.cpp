#include <algorithm>

#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/order.h>
#include <sluice/operator/graph/memory_plan.h>

namespace sluice::graph {

namespace {

class Planner {
 public:
  Planner(const Graph& graph, const std::vector<bool>& apart)
      : graph_(graph), apart_(apart), order_(graph), users_(graph.values.size()), stays_(graph.values.size()) {
    plan_.slot_of.resize(graph.values.size());
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
      const auto use = [&](ValueId root) { users_[root].push_back(at); };
      if (graph.nodes[at].is_view())
        continue;
      for_each_read(graph, graph.nodes[at], use);
      for_each_write(graph, graph.nodes[at], use);
    }
    for (const ValueId output : graph.outputs)
      stays_[graph.root(output)] = true;
  }

  MemoryPlan run() {
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      for (const auto [id, made] : graph_.nodes[at].results) {
        if (!made || graph_.nodes[at].is_view())
          continue;
        plan_.bytes_without_sharing += bytes_of(graph_.values[id].spec);
        if (apart_[id])
          plan_.bytes_apart += bytes_of(graph_.values[id].spec);
        else
          place(id, at);
      }
    }
    return std::move(plan_);
  }

 private:
  static std::size_t bytes_of(const ArraySpec& spec) {
    return static_cast<std::size_t>(spec.shape.size()) * size_of(spec.dtype);
  }

  // An elementwise kernel may write over an operand that lies as the result does, if it reads that memory once and
  // leaves nothing else there.
  bool may_write_over(std::size_t at, ValueId value, ValueId held) const {
    const Node& node = graph_.nodes[at];
    const bool is_read = std::find(node.inputs.begin(), node.inputs.end(), held) != node.inputs.end();
    const bool is_written = std::any_of(node.results.begin(), node.results.end(), [&](const Result& result) {
      return graph_.root(result.value) == held;
    });
    if (!node.op->elementwise || !is_read || is_written)
      return false;
    const ArraySpec &made = graph_.values[value].spec, &read = graph_.values[held].spec;
    if (!(made.shape == read.shape) || size_of(made.dtype) != size_of(read.dtype))
      return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return input == held || graph_.root(input) != held;
    });
  }

  bool is_free(std::size_t slot, ValueId value, std::size_t at) const {
    const ValueId held = held_[slot];
    if (stays_[held])
      return false;
    return std::all_of(users_[held].begin(), users_[held].end(), [&](std::size_t user) {
      return user == at ? may_write_over(at, value, held) : user < at && order_.is_before(user, at);
    });
  }

  // The smallest that holds it, otherwise the largest, which grows.
  void place(ValueId value, std::size_t at) {
    const ArraySpec& spec = graph_.values[value].spec;
    const std::size_t bytes = bytes_of(spec);
    std::optional<std::size_t> best;
    for (std::size_t slot = 0; slot < held_.size(); ++slot) {
      if (plan_.slots[slot].device != spec.device || !is_free(slot, value, at))
        continue;
      if (!best || is_better(plan_.slots[slot].bytes, plan_.slots[*best].bytes, bytes))
        best = slot;
    }
    if (!best) {
      best = plan_.slots.size();
      plan_.slots.push_back({spec.device, 0});
      held_.push_back(value);
    }
    held_[*best] = value;
    plan_.slots[*best].bytes = std::max(plan_.slots[*best].bytes, bytes);
    plan_.slot_of[value] = best;
  }

  static bool is_better(std::size_t bytes, std::size_t best, std::size_t wanted) {
    const bool fits = bytes >= wanted, best_fits = best >= wanted;
    return fits != best_fits ? fits : fits ? bytes < best : bytes > best;
  }

  const Graph& graph_;
  const std::vector<bool>& apart_;
  const NodeOrder order_;
  std::vector<std::vector<std::size_t>> users_;  // of a root: nodes
  std::vector<bool> stays_;
  std::vector<ValueId> held_;  // by slot: who has it now
  MemoryPlan plan_;
};

}  // namespace

std::size_t bytes_of(const MemoryPlan& plan) noexcept {
  std::size_t bytes = plan.bytes_apart;
  for (const MemoryPlan::Slot& slot : plan.slots)
    bytes += slot.bytes;
  return bytes;
}

MemoryPlan plan_memory(const Graph& graph, const std::vector<bool>& apart) {
  return Planner(graph, apart).run();
}

}  // namespace sluice::graph
