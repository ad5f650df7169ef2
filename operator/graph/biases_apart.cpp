#include <sluice/operator/graph/passes.h>
#include <sluice/operator/matmul/dense_attributes.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/matmul/small_product.h>

namespace sluice::graph {

namespace {

using sluice::detail::DenseWeightsAttributes;

// A small product adds up the rows of its operand on the way.
bool is_one_kernel(const Graph& graph, const Node& node) {
  const ArraySpec &dy = graph.values[node.inputs[0]].spec, &x = graph.values[node.inputs[1]].spec;
  sluice::detail::GemmProblem p{.dtype = dy.dtype, .m = dy.shape[1], .n = x.shape[1], .k = dy.shape[0]};
  p.c.column = 1;
  return dy.shape.size() == 0 || x.shape.size() == 0 || sluice::detail::is_small_product(p);
}

}  // namespace

Graph with_biases_apart(const Graph& graph) {
  Graph apart = graph;
  apart.nodes.clear();
  for (const Node& node : graph.nodes) {
    const bool both = node.op == &sluice::detail::dense_backward_weights_op && node.results.size() == 2;
    if (!both || !graph.values[node.inputs[0]].spec.device.is_gpu() || is_one_kernel(graph, node)) {
      apart.nodes.push_back(node);
      continue;
    }
    apart.nodes.push_back(
        {.op = &sluice::detail::dense_backward_bias_op,
         .inputs = {node.inputs[0]},
         .results = {node.results[1]},
         .site = node.site});
    Node weights = node;
    weights.attributes = Attributes::of(DenseWeightsAttributes{.bias = false});
    weights.results.resize(1);
    apart.nodes.push_back(std::move(weights));
  }
  return apart;
}

}  // namespace sluice::graph
