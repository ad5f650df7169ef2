// On a GPU the gradient of an activation adds up the gradient of the bias in front of it while it writes it.
#include <algorithm>
#include <optional>

#include <sluice/operator/graph/detail/copies.h>
#include <sluice/operator/graph/detail/failures.h>
#include <sluice/operator/graph/detail/node_edits.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/matmul/activation_bias.h>
#include <sluice/operator/matmul/matmul.h>

namespace sluice::graph {

namespace {

class BiasSums {
 public:
  explicit BiasSums(Graph& graph) : graph_(graph), edits_(graph), failures_(graph) {}

  /// False if nothing has changed.
  bool run() {
    bool changed = false;
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      if (graph_.nodes[at].op == &sluice::detail::dense_backward_bias_op)
        changed = join(at) || changed;
    }
    edits_.finish();
    return changed;
  }

 private:
  // The sum comes with the gradient, where that is made.
  bool join(std::size_t at) {
    const ValueId terms = graph_.nodes[at].inputs[0];
    const auto maker = gradient_behind(terms);
    if (!maker)
      return false;
    Node& gradient = graph_.nodes[*maker];
    const Operator* const both = sluice::detail::with_bias_sum(gradient.op);
    if (both == nullptr || !edits_.spec(terms).device.is_gpu() || is_read_elementwise(gradient) ||
        !lie_alike(gradient, terms) || !may_come_forward(at, *maker) || failures_.of(at) != failures_.of(*maker))
      return false;
    gradient.op = both;
    gradient.inputs.resize(2);
    gradient.results.push_back(graph_.nodes[at].results[0]);
    edits_.drop(at);
    return true;
  }

  // The node that makes what a value is but for its leading axes.
  std::optional<std::size_t> gradient_behind(ValueId value) const {
    const std::int64_t units = edits_.spec(value).shape[1];
    for (auto maker = edits_.order.maker[value]; maker; maker = edits_.order.maker[value]) {
      const Node& node = graph_.nodes[*maker];
      const Shape& shape = edits_.spec(value).shape;
      if (shape.ndim() == 0 || shape[shape.ndim() - 1] != units)
        return std::nullopt;
      if (!node.is_view())
        return maker;
      if (!lies_whole(graph_, edits_.order.maker, value))
        return std::nullopt;
      value = node.inputs[0];
    }
    return std::nullopt;
  }

  // What is computed elementwise of the gradient is one kernel with it.
  bool is_read_elementwise(const Node& gradient) const {
    const auto& readers = edits_.order.named_by[gradient.results[0].value];
    return std::any_of(
        readers.begin(), readers.end(), [&](std::size_t reader) { return graph_.nodes[reader].op->elementwise; });
  }

  // dy and x lie as the gradient does, and neither is computed elementwise for it alone, which is one kernel with that.
  bool lie_alike(const Node& gradient, ValueId terms) const {
    const ArraySpec& dx = edits_.spec(gradient.results[0].value);
    if (!gradient.results[0].made || dx.shape.size() != edits_.spec(terms).shape.size())
      return false;
    return std::all_of(gradient.inputs.begin(), gradient.inputs.begin() + 2, [&](ValueId input) {
      const ArraySpec& spec = edits_.spec(input);
      const auto& maker = edits_.order.maker[input];
      const bool is_fused = maker && graph_.nodes[*maker].op->elementwise && edits_.only_reader(input);
      return spec.shape == dx.shape && spec.dtype == dx.dtype && !is_fused &&
             graph_.values[input].source != Source::shape && lies_whole(graph_, edits_.order.maker, input);
    });
  }

  // Between the two nobody writes what is added up, nor sees where the sum goes if that is there already; the gradient
  // does not touch it.
  bool may_come_forward(std::size_t at, std::size_t maker) const {
    const Node& sum = graph_.nodes[at];
    const Result& result = sum.results[0];
    if (edits_.is_written(sum.inputs[0], maker + 1, at))
      return false;
    bool is_seen = false;
    const auto see = [&](ValueId root) { is_seen = is_seen || root == graph_.root(result.value); };
    for (std::size_t between = maker; between < at && !result.made; ++between) {
      for_each_read(graph_, graph_.nodes[between], see);
      for_each_write(graph_, graph_.nodes[between], see);
    }
    return !is_seen;
  }

  Graph& graph_;
  NodeEdits edits_;
  const Failures failures_;
};

}  // namespace

Graph with_bias_sums(const Graph& graph) {
  Graph made = with_shapes_apart(graph);
  return BiasSums(made).run() ? made : graph;
}

}  // namespace sluice::graph
