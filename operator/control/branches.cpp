#include <algorithm>

#include <sluice/engine/detail/region_branch.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/control/condition.h>
#include <sluice/operator/control/detail/branches.h>
#include <sluice/operator/gpu_kernel.h>

namespace sluice::control {

namespace {

bool may_be_part(const graph::Graph& graph, const graph::Node& node, Device device) {
  const auto is_there = [&](graph::ValueId id) { return graph.values[id].spec.device == device; };
  const bool together = std::all_of(node.inputs.begin(), node.inputs.end(), is_there) &&
                        std::all_of(node.results.begin(), node.results.end(), [&](const graph::Result& result) {
                          return is_there(result.value);
                        });
  return together && (node.is_view() || node.op->capturable || is_graph_branch(graph, node));
}

bool may_be_part(const Subgraph& body, Device device) {
  const graph::Graph& graph = body.graph();
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    return may_be_part(graph, node, device);
  });
}

}  // namespace

bool is_graph_branch(const graph::Graph& graph, const graph::Node& node) {
  if (node.op != &k_cond || node.attributes.type() != k_cond.attributes)
    return false;
  const Device device = graph.values[node.inputs[0]].spec.device;
  const auto& a = node.attributes.as<CondAttributes>();
  return device.is_gpu() && sluice::detail::takes_region_branches() && may_be_part(a.then_body, device) &&
         may_be_part(a.else_body, device);
}

void push_branch(
    const NDArray& predicate,
    const std::function<void()>& first,
    const std::function<void()>& second,
    SourceLocation site) {
  const NDArray truth = predicate.astype(bool_, site);  // NaN is true
  sluice::detail::RegionBranch branch(
      truth.engine(),
      {.name = "cond",
       .device = truth.device(),
       .var = truth.object()->buffer->var(),
       .byte = truth.object()->data(),
       .set = SLUICE_GPU_KERNEL(set_condition_gpu)},
      site);
  first();
  branch.otherwise();
  second();
}

}  // namespace sluice::control
