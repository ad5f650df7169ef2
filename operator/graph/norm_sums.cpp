// On a GPU the gradient of layer norm takes along the other gradient that a residual stream adds to it.
#include <algorithm>
#include <optional>

#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/graph/detail/copies.h>
#include <sluice/operator/graph/detail/failures.h>
#include <sluice/operator/graph/detail/node_edits.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/norm/add_norm.h>

namespace sluice::graph {

namespace {

using sluice::detail::LayerNormAttributes;

class NormSums {
 public:
  explicit NormSums(Graph& graph) : graph_(graph), edits_(graph), failures_(graph) {}

  /// False if nothing has changed.
  bool run() {
    bool changed = false;
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      const Operator* const op = graph_.nodes[at].op;
      if (op == &sluice::detail::layer_norm_backward_op || op == &sluice::detail::rms_norm_backward_op)
        changed = add_behind(at) || changed;
    }
    edits_.finish();
    return changed;
  }

 private:
  bool is_alike(ValueId a, ValueId b) const {
    const ArraySpec &x = edits_.spec(a), &y = edits_.spec(b);
    return x.shape == y.shape && x.dtype == y.dtype;
  }

  bool add_behind(std::size_t at) {
    Node& norm = graph_.nodes[at];
    const ArraySpec& x = edits_.spec(norm.inputs[1]);
    if (!norm.results[0].made || !x.device.is_gpu() || !sluice::detail::adds_in_norm_backward(x, norm.attributes))
      return false;
    const auto sum = edits_.only_reader(norm.results[0].value);
    const auto other = sum ? added_to(norm.results[0].value, at, *sum) : std::nullopt;
    if (!other)
      return false;
    const auto cast = rounded_by(*sum);
    const bool is_centred = norm.op == &sluice::detail::layer_norm_backward_op;
    norm.op = is_centred ? &sluice::detail::add_layer_norm_backward_op : &sluice::detail::add_rms_norm_backward_op;
    norm.inputs.push_back(*other);
    norm.results[0] = graph_.nodes[*sum].results[0];
    edits_.drop(*sum);
    auto how = norm.attributes.as<LayerNormAttributes>();
    how.result.reset();
    if (cast) {
      norm.results.push_back(graph_.nodes[*cast].results[0]);
      how.result = edits_.spec(norm.results.back().value).dtype;
      edits_.drop(*cast);
    }
    norm.attributes = Attributes::of(how);
    return true;
  }

  // What the node at `sum` adds to dx, if it is there where the gradient runs, and is then what it is behind it.
  std::optional<ValueId> added_to(ValueId dx, std::size_t norm, std::size_t sum) const {
    const Node& node = graph_.nodes[sum];
    if (node.op != &sluice::detail::binary_operator(Binary::add) || node.inputs.size() != 2 || !node.results[0].made)
      return std::nullopt;
    const ValueId other = node.inputs[node.inputs[0] == dx ? 1 : 0];
    const auto& maker = edits_.order.maker[other];
    const bool is_there = (!maker || *maker < norm) && !edits_.is_written(other, norm, sum);
    // The gradients of gamma and beta must not be lost with what is added.
    if (other == dx || !is_there || !is_alike(other, dx) || graph_.values[other].source == Source::shape ||
        !lies_whole(graph_, edits_.order.maker, other) || failures_.of(norm) != failures_.of(sum))
      return std::nullopt;
    return other;
  }

  // A node that rounds the sum to a half type, as it was made.
  std::optional<std::size_t> rounded_by(std::size_t sum) const {
    const ValueId value = graph_.nodes[sum].results[0].value;
    for (const std::size_t reader : edits_.order.named_by[value]) {
      const Node& node = graph_.nodes[reader];
      if (edits_.is_gone(reader) || !makes_copy(graph_, node) || node.inputs[0] != value ||
          !sluice::detail::is_half(edits_.spec(node.results[0].value).dtype))
        continue;
      return edits_.is_written(value, sum + 1, reader) ? std::nullopt : std::optional(reader);
    }
    return std::nullopt;
  }

  Graph& graph_;
  NodeEdits edits_;
  const Failures failures_;
};

}  // namespace

Graph with_norm_sums(const Graph& graph) {
  Graph made = with_shapes_apart(graph);
  return NormSums(made).run() ? made : graph;
}

}  // namespace sluice::graph
