// On a GPU the gradient of a relu behind a convolution takes along that of the pooling that reads it.
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/unpooled_relu.h>
#include <sluice/operator/graph/detail/failures.h>
#include <sluice/operator/graph/detail/node_edits.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/pool/pool.h>

namespace sluice::graph {

namespace {

class UnpooledRelus {
 public:
  explicit UnpooledRelus(Graph& graph) : graph_(graph), edits_(graph), failures_(graph) {}

  /// False if nothing has changed.
  bool run() {
    bool changed = false;
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      const Node& node = graph_.nodes[at];
      if (node.op == &sluice::detail::convolution_relu_backward_op && node.results.size() == 2)
        changed = join(at) || changed;
    }
    edits_.finish();
    return changed;
  }

 private:
  bool join(std::size_t at) {
    Node& relu = graph_.nodes[at];
    const ValueId head = relu.inputs[0], y = relu.inputs[1];
    const auto maker = edits_.order.maker[head];
    if (!maker || graph_.nodes[*maker].op != &sluice::detail::max_pool2d_backward_op)
      return false;
    const Node& pool = graph_.nodes[*maker];
    if (!edits_.spec(y).device.is_gpu() || !pool.results[0].made || edits_.only_reader(head) != at ||
        edits_.spec(head).shape != edits_.spec(y).shape || edits_.spec(head).dtype != edits_.spec(y).dtype ||
        edits_.is_written(pool.inputs[0], *maker + 1, at) || edits_.is_written(pool.inputs[1], *maker + 1, at) ||
        failures_.of(at) != failures_.of(*maker))
      return false;
    relu.op = &sluice::detail::max_pool2d_relu_backward_op;
    relu.attributes = pool.attributes;
    relu.inputs = {pool.inputs[0], pool.inputs[1], y};
    edits_.drop(*maker);
    return true;
  }

  Graph& graph_;
  NodeEdits edits_;
  const Failures failures_;
};

}  // namespace

Graph with_unpooled_relus(const Graph& graph) {
  Graph made = graph;
  return UnpooledRelus(made).run() ? made : graph;
}

}  // namespace sluice::graph
