// Which branches and loops a GPU runs by itself, and the branches.
#include <algorithm>

#include <sluice/operator/control/detail/branches.h>
#include <sluice/operator/control/detail/cond_parts.h>
#include <sluice/operator/detail/destination.h>

namespace sluice::control {

namespace {

bool are_there(const graph::Graph& graph, const graph::Node& node, Device device) {
  const auto is_there = [&](graph::ValueId id) { return graph.values[id].spec.device == device; };
  return std::all_of(node.inputs.begin(), node.inputs.end(), is_there) &&
         std::all_of(node.results.begin(), node.results.end(), [&](const graph::Result& result) {
           return is_there(result.value);
         });
}

bool may_be_part(const Subgraph& body, Device device) {
  const graph::Graph& graph = body.ready().graph;
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    return are_there(graph, node, device) && (node.is_view() || node.op->capturable || is_graph_branch(graph, node));
  });
}

/// Of a node that could be one; of others none.
std::vector<Subgraph> bodies_of(const graph::Node& node) {
  if (node.attributes.type() != node.op->attributes)
    return {};
  if (node.op == &k_cond) {
    const auto& a = node.attributes.as<CondAttributes>();
    return {a.then_body, a.else_body};
  }
  if (node.op != &k_while_loop || node.attributes.as<WhileAttributes>().max_iterations == 0)
    return {};
  const auto& a = node.attributes.as<WhileAttributes>();
  return {a.condition, a.body};
}

std::size_t bytes_of_outputs(const Subgraph& body) {
  std::size_t bytes = 0;
  for (const graph::ValueId output : body.graph().outputs) {
    const ArraySpec& spec = body.graph().values[output].spec;
    bytes += static_cast<std::size_t>(spec.shape.size()) * size_of(spec.dtype);
  }
  return bytes;
}

/// The bodies of a branch with memory for what they make, the same for both.
class BoundBranch final : public BoundBodies {
 public:
  BoundBranch(
      const CondAttributes& a, std::span<const NDArray> inputs, std::span<const NDArray> results, Engine& engine)
      : parts_(a, inputs.size()),
        room_(new_room(std::vector{a.then_body, a.else_body}, inputs[0].device(), engine)),
        first_(a.then_body, parts_.of(true, inputs), results, room_, engine),
        second_(a.else_body, parts_.of(false, inputs), results, room_, engine) {}

  void push(std::span<const NDArray> inputs, std::span<const NDArray> results, SourceLocation site) override;
  void poison(SourceLocation site) const override {
    first_.poison(site);
    second_.poison(site);
  }
  std::size_t bytes() const override {
    std::size_t bytes = first_.bytes() + second_.bytes();
    for (const NDArray& piece : room_)
      bytes += bytes_of(piece);
    return bytes;
  }

 private:
  const CondParts parts_;
  const Arrays room_;
  BoundSide first_, second_;
};

void BoundBranch::push(std::span<const NDArray> inputs, std::span<const NDArray> results, SourceLocation site) {
  const NDArray truth = inputs[0].astype(bool_, site);  // NaN is true
  sluice::detail::RegionBranch branch(truth.engine(), condition_of("cond", truth), site);
  tell_own(branch, room_);
  first_.tell_own(branch);
  second_.tell_own(branch);
  first_.push(parts_.of(true, inputs), results, site);
  branch.otherwise();
  second_.push(parts_.of(false, inputs), results, site);
}

}  // namespace

bool is_graph_branch(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Subgraph> bodies = bodies_of(node);
  if (bodies.empty() || !sluice::detail::takes_region_branches())
    return false;
  const Device device = graph.values[node.inputs[0]].spec.device;
  return device.is_gpu() && are_there(graph, node, device) &&
         std::all_of(bodies.begin(), bodies.end(), [&](const Subgraph& body) { return may_be_part(body, device); });
}

std::size_t bytes_of_branches(const graph::Graph& graph) {
  std::size_t bytes = 0;
  for (const graph::Node& node : graph.nodes) {
    if (!is_graph_branch(graph, node))
      continue;
    const std::vector<Subgraph> bodies = bodies_of(node);
    for (const std::size_t piece : sizes_of_room(bodies))
      bytes += piece;
    for (const Subgraph& body : bodies)
      bytes += body.ready().bytes_of_branches + (node.op == &k_cond ? 0 : bytes_of_outputs(body));
  }
  return bytes;
}

std::unique_ptr<BoundBodies> bound_bodies(
    const graph::Node& node, std::span<const NDArray> inputs, std::span<const NDArray> results, Engine& engine) {
  for (const NDArray& result : results) {
    if (std::any_of(inputs.begin(), inputs.end(), [&](const NDArray& input) {
          return sluice::detail::overlaps(input, result);
        }))
      return nullptr;
  }
  if (node.op == &k_cond)
    return std::make_unique<BoundBranch>(node.attributes.as<CondAttributes>(), inputs, results, engine);
  return bound_loop(node.attributes.as<WhileAttributes>(), inputs, results, engine);
}

}  // namespace sluice::control
