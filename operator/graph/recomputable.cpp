#include <algorithm>

#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/memory_use.h>
#include <sluice/operator/graph/detail/recomputable.h>
#include <sluice/operator/graph/flops.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/norm/norm.h>

namespace sluice::graph {

namespace {

// A node that does more operations for a byte that it moves is heavy: products, convolutions.
constexpr double k_light_flops_a_byte = 4;
// What gives back less than this share of the bytes that it moves is not worth it, statistics above all.
constexpr double k_least_gain = 1.0 / 16;
// Nor what is kept for less than this share of the nodes, or two.
constexpr double k_least_gap = 0.02;
// What processors do while they move a byte, roughly: CPUs fewer, GPUs more.
constexpr double k_flops_a_byte = 16;
// And while a node more is launched.
constexpr double k_bytes_a_node = 1 << 20;

double bytes_moved(const Graph& graph, const Node& node) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    bytes += node.sees_shape_only(i) ? 0 : bytes_of(graph.values[node.inputs[i]].spec);
  for (const Result& result : node.results)
    bytes += bytes_of(graph.values[result.value].spec);
  return static_cast<double>(bytes);
}

// What it writes beside its results nothing of them comes of: not so of statistics that it was told to use.
bool writes_aside(const Node& node) {
  return (node.op == &sluice::detail::batch_norm_op || node.op == &sluice::detail::batch_norm_relu_op) &&
         node.attributes.as<sluice::detail::BatchNormAttributes>().batch_stats;
}

}  // namespace

Recomputable::Recomputable(const Graph& graph, const RecomputationOptions& options)
    : graph_(graph), program_(options.program), lives_(graph), roots_(graph.values.size()) {
  const std::vector<bool> once = invariant_nodes(graph);
  const std::vector<bool> derived = options.keep_derived ? derived_nodes(graph) : std::vector<bool>(once.size());
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    unchanged_until_.push_back(change_behind(at));
    const bool is_kept = once[at] || derived[at];
    add(at, is_kept ? Work::never : work_of(at), is_kept);
  }
}

void Recomputable::add(std::size_t at, Work work, bool stays) {
  const Node& node = graph_.nodes[at];
  for (const auto [id, made] : node.results) {
    if (!made || node.is_view() || stays)
      continue;
    Root& root = roots_[id];
    root.work = work;
    root.bytes = bytes_of(graph_.values[id].spec);
    root.last_use = root.early_end = lives_.uses[id].back();
    const bool gains =
        work == Work::heavy || static_cast<double>(root.bytes) >= k_least_gain * bytes_moved(graph_, node);
    if (work != Work::never && gains && root.last_use < graph_.nodes.size())
      find_gap(id);
  }
}

// The longest time between two uses; of a program whose gradients follow, that from one to the other.
void Recomputable::find_gap(ValueId id) {
  const std::vector<std::size_t>& uses = lives_.uses[id];
  auto longest =
      std::max<std::size_t>(2, static_cast<std::size_t>(k_least_gap * static_cast<double>(graph_.nodes.size())));
  for (std::size_t i = 1; i < uses.size(); ++i) {
    const bool is_cut = uses[i - 1] < program_ && uses[i] >= program_;
    if (program_ > 0 ? !is_cut : uses[i] - uses[i - 1] <= longest)
      continue;
    longest = uses[i] - uses[i - 1];
    roots_[id].early_end = uses[i - 1];
    roots_[id].late_begin = uses[i];
  }
}

bool Recomputable::may_run_again(std::size_t at) const {
  const Node& node = graph_.nodes[at];
  if (node.is_view() || node.results.empty() || node.has_destinations() || node.op->random != nullptr ||
      !node.op->capturable || (program_ > 0 && at >= program_))
    return false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& input = graph_.values[node.inputs[i]];
    if (input.source == Source::random || (node.mutates(i) && !writes_aside(node)))
      return false;
  }
  return std::all_of(node.results.begin(), node.results.end(), [&](const Result& result) {
    return lives_.rewrites[result.value].empty();
  });
}

Work Recomputable::work_of(std::size_t at) const {
  if (!may_run_again(at))
    return Work::never;
  const Node& node = graph_.nodes[at];
  const auto operations = static_cast<double>(flops(node, graph_));
  return operations > k_light_flops_a_byte * bytes_moved(graph_, node) ? Work::heavy : Work::light;
}

double Recomputable::cost(std::size_t node) const {
  const Node& of = graph_.nodes[node];
  return k_bytes_a_node + bytes_moved(graph_, of) + static_cast<double>(flops(of, graph_)) / k_flops_a_byte;
}

std::vector<ValueId> Recomputable::operands(std::size_t node) const {
  const Node& of = graph_.nodes[node];
  std::vector<ValueId> found;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    if (!of.sees_shape_only(i) && !of.mutates(i))
      found.push_back(of.inputs[i]);
  }
  return found;
}

// A program and its gradients run at two times: what one of them writes that others see, they may write in between.
std::size_t Recomputable::change_behind(std::size_t at) const {
  std::size_t first = k_forever;
  for (const ValueId operand : operands(at)) {
    const ValueId root = graph_.root(operand);
    const std::vector<std::size_t>& rewrites = lives_.rewrites[root];
    if (program_ > 0 && is_outside(graph_, root) && !rewrites.empty())
      return 0;
    const auto next = std::upper_bound(rewrites.begin(), rewrites.end(), at);
    if (next != rewrites.end())
      first = std::min(first, *next);
  }
  return first;
}

}  // namespace sluice::graph
