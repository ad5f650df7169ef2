#include <algorithm>
#include <optional>
#include <utility>

#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/fused/source.h>
#include <sluice/operator/graph/fused_kernels.h>

namespace sluice::graph {

namespace {

/// What a node runs of its own; none if it runs what others do. On a CPU reductions have loops alone.
std::optional<FusedKernel> kernel_of(const Graph& graph, const Node& node) {
  if (node.op == &fused::k_fused) {
    const fused::Program& program = fused::program_of(node.attributes);
    const Device device = graph.values[node.results.at(0).value].spec.device;
    return FusedKernel{
        .calls = fused::names_of_calls(program),
        .source = fused::source_of(program).text,
        .problem = fused::prepare(node.attributes, device)};
  }
#if SLUICE_CUDA
  if (node.op == &fused::k_fused_reduction && graph.values[node.inputs.at(0)].spec.device.is_gpu()) {
    std::vector<ArraySpec> inputs;
    for (const ValueId input : node.inputs)
      inputs.push_back(graph.values[input].spec);
    if (const auto source = fused::source_of_reduction(node.attributes, inputs))
      return FusedKernel{
          .calls = fused::names_of_calls(node.attributes),
          .source = source->text,
          .problem = fused::prepare_reduction(node.attributes, inputs)};
  }
#endif
  return std::nullopt;
}

}  // namespace

std::vector<FusedKernel> fused_kernels(const Graph& graph) {
  std::vector<FusedKernel> kernels;
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    auto made = kernel_of(graph, graph.nodes[at]);
    if (!made)
      continue;
    const auto is_same = [&](const FusedKernel& known) { return known.source == made->source; };
    auto kernel = std::find_if(kernels.begin(), kernels.end(), is_same);
    if (kernel == kernels.end())
      kernel = kernels.insert(kernel, std::move(*made));
    kernel->nodes.push_back(at);
  }
  return kernels;
}

}  // namespace sluice::graph
