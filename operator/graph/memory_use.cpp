#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <sluice/operator/detail/destination.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/memory_use.h>

namespace sluice::graph {

MemoryUse::MemoryUse(const Graph& graph) : graph_(graph), users_(graph.values.size()), stays_(graph.values.size()) {
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

bool MemoryUse::may_write_over(std::size_t at, ValueId value, ValueId held) const {
  const Node& node = graph_.nodes[at];
  const auto read_at = std::find(node.inputs.begin(), node.inputs.end(), held);
  const auto made_at = std::find_if(
      node.results.begin(), node.results.end(), [&](const Result& result) { return result.value == value; });
  const bool is_written = std::any_of(node.results.begin(), node.results.end(), [&](const Result& result) {
    return graph_.root(result.value) == held;
  });
  if (read_at == node.inputs.end() || made_at == node.results.end() || is_written)
    return false;
  const auto result = static_cast<std::size_t>(made_at - node.results.begin());
  // It may be read at several places.
  for (std::size_t input = 0; input < node.inputs.size(); ++input) {
    if (node.inputs[input] == held && !sluice::detail::writes_over(*node.op, input, result))
      return false;
  }
  const ArraySpec &made = graph_.values[value].spec, &read = graph_.values[held].spec;
  if (!(made.shape == read.shape) || size_of(made.dtype) != size_of(read.dtype))
    return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return input == held || graph_.root(input) != held;
  });
}

namespace {

/// The values that lie in one slot, by the nodes that make them.
class Lane {
 public:
  explicit Lane(const MemoryUse& use) : use_(&use) {}

  /// How many nodes lie between it and the nearer of its neighbours in time; nothing where there is no room.
  std::optional<std::size_t> room_for(ValueId value) const {
    const std::size_t begin = begin_of(value), end = use_->users(value).back();
    std::size_t idle = use_->graph().nodes.size();
    const auto after = values_.lower_bound(begin);
    if (after != values_.end()) {
      if (!is_done(value, after->second))
        return std::nullopt;
      idle = std::min(idle, after->first - end);
    }
    if (after != values_.begin()) {
      const ValueId before = std::prev(after)->second;
      if (!is_done(before, value))
        return std::nullopt;
      idle = std::min(idle, begin - use_->users(before).back());
    }
    return idle;
  }
  void add(ValueId value) { values_.emplace(begin_of(value), value); }

 private:
  std::size_t begin_of(ValueId value) const { return use_->users(value).front(); }
  bool is_done(ValueId earlier, ValueId later) const {
    const std::size_t end = use_->users(earlier).back(), begin = begin_of(later);
    if (use_->stays(earlier) || begin_of(earlier) == begin)
      return false;
    return end < begin || (end == begin && use_->may_write_over(begin, later, earlier));
  }

  const MemoryUse* use_;
  std::map<std::size_t, ValueId> values_;
};

}  // namespace

void place_by_size(const MemoryUse& use, std::vector<ValueId> values, MemoryPlan& plan) {
  const auto spec_of = [&](ValueId id) -> const ArraySpec& { return use.graph().values[id].spec; };
  std::stable_sort(
      values.begin(), values.end(), [&](ValueId a, ValueId b) { return bytes_of(spec_of(a)) > bytes_of(spec_of(b)); });
  std::vector<Lane> lanes;
  for (const ValueId value : values) {
    const ArraySpec& spec = spec_of(value);
    std::optional<std::size_t> best, least;
    for (std::size_t slot = 0; slot < lanes.size(); ++slot) {
      const auto idle = plan.slots[slot].device == spec.device ? lanes[slot].room_for(value) : std::nullopt;
      if (idle && (!least || *idle < *least)) {
        best = slot;
        least = idle;
      }
    }
    if (!best) {
      best = lanes.size();
      plan.slots.push_back({spec.device, bytes_of(spec)});
      lanes.emplace_back(use);
    }
    lanes[*best].add(value);
    plan.slot_of[value] = best;
  }
}

}  // namespace sluice::graph
