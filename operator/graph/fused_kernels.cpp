#include <algorithm>
#include <utility>

#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/source.h>
#include <sluice/operator/graph/fused_kernels.h>

namespace sluice::graph {

std::vector<FusedKernel> fused_kernels(const Graph& graph) {
  std::vector<FusedKernel> kernels;
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    if (node.op != &fused::k_fused)
      continue;
    const fused::Program& program = fused::program_of(node.attributes);
    std::string source = fused::source_of(program).text;
    const auto is_same = [&](const FusedKernel& known) { return known.source == source; };
    auto kernel = std::find_if(kernels.begin(), kernels.end(), is_same);
    if (kernel == kernels.end()) {
      const Device device = graph.values[node.results.at(0).value].spec.device;
      kernel = kernels.insert(
          kernel,
          {.calls = fused::names_of_calls(program),
           .source = std::move(source),
           .problem = fused::prepare(node.attributes, device)});
    }
    kernel->nodes.push_back(at);
  }
  return kernels;
}

}  // namespace sluice::graph
