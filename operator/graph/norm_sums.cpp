// On a GPU layer norm takes along the sum of a residual stream in front of it, and its gradient that of two gradients.
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
      else if (op == &sluice::detail::layer_norm_op || op == &sluice::detail::rms_norm_op)
        changed = add_in_front(at) || changed;
    }
    edits_.finish();
    return changed;
  }

 private:
  bool is_alike(ValueId a, ValueId b) const {
    const ArraySpec &x = edits_.spec(a), &y = edits_.spec(b);
    return x.shape == y.shape && x.dtype == y.dtype;
  }

  bool is_sum(const Node& node) const {
    return node.op == &sluice::detail::binary_operator(Binary::add) && node.inputs.size() == 2 && node.results[0].made;
  }
  bool is_whole(ValueId value) const {
    return graph_.values[value].source != Source::shape && lies_whole(graph_, edits_.order.maker, value);
  }

  // The call runs where the sum was: others may read that before the norm was made.
  bool add_in_front(std::size_t at) {
    const Node& norm = graph_.nodes[at];
    const ValueId x = norm.inputs[0];
    const auto sum = edits_.order.maker[x];
    if (!edits_.spec(x).device.is_gpu() || !sum || edits_.is_gone(*sum) || !is_sum(graph_.nodes[*sum]) ||
        !sluice::detail::adds_in_norm(edits_.spec(x), norm.attributes) || failures_.of(*sum) != failures_.of(at) ||
        !may_run_at(norm, *sum, at) || std::count(norm.inputs.begin() + 1, norm.inputs.end(), x) > 0)
      return false;
    const Node& of = graph_.nodes[*sum];
    for (const ValueId addend : of.inputs) {
      if (!is_alike(addend, x) || !is_whole(addend))
        return false;
    }
    const bool turned = !widened_by(of.inputs[1], *sum) && widened_by(of.inputs[0], *sum);
    const ValueId a = of.inputs[turned ? 1 : 0];
    ValueId b = of.inputs[turned ? 0 : 1];
    const auto cast = widened_by(b, *sum);
    if (cast)
      b = graph_.nodes[*cast].inputs[0];
    if (is_fused_with(a, *sum) || is_fused_with(b, cast.value_or(*sum)))
      return false;
    if (cast)
      edits_.drop(*cast);
    Node made = norm;
    const bool is_centred = norm.op == &sluice::detail::layer_norm_op;
    made.op = is_centred ? &sluice::detail::add_layer_norm_op : &sluice::detail::add_rms_norm_op;
    made.inputs[0] = a;
    made.inputs.insert(made.inputs.begin() + 1, b);
    made.results.push_back(of.results[0]);
    edits_.drop(at);
    graph_.nodes[*sum] = std::move(made);
    return true;
  }

  // What is computed elementwise for its reader alone is one kernel with that: it is written nowhere.
  bool is_fused_with(ValueId value, std::size_t reader) const {
    const auto& maker = edits_.order.maker[value];
    return maker && graph_.nodes[*maker].op->elementwise && edits_.only_reader(value) == reader;
  }

  // Is all that a norm reads there and as it will be, in front of its place, and are its results new arrays?
  bool may_run_at(const Node& norm, std::size_t place, std::size_t at) const {
    for (const ValueId input : norm.inputs) {
      const auto& maker = edits_.order.maker[input];
      if ((input != norm.inputs[0] && maker && *maker >= place) || edits_.is_written(input, place + 1, at))
        return false;
    }
    return std::all_of(norm.results.begin(), norm.results.end(), [](const Result& result) { return result.made; });
  }

  // The node that widens an addend for the sum alone, of what is still the same there.
  std::optional<std::size_t> widened_by(ValueId addend, std::size_t sum) const {
    const auto& maker = edits_.order.maker[addend];
    if (!maker || edits_.is_gone(*maker) || edits_.only_reader(addend) != sum ||
        !makes_copy(graph_, graph_.nodes[*maker]))
      return std::nullopt;
    const auto& inputs = graph_.nodes[sum].inputs;
    const ValueId half = graph_.nodes[*maker].inputs[0];
    if (inputs[0] == inputs[1] || !sluice::detail::is_half(edits_.spec(half).dtype) || !is_whole(half) ||
        edits_.is_written(half, *maker, sum))
      return std::nullopt;
    return *maker;
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
    if (!is_sum(node))
      return std::nullopt;
    const ValueId other = node.inputs[node.inputs[0] == dx ? 1 : 0];
    const auto& maker = edits_.order.maker[other];
    const bool is_there = (!maker || *maker < norm) && !edits_.is_written(other, norm, sum);
    // The gradients of gamma and beta must not be lost with what is added.
    if (other == dx || !is_there || !is_alike(other, dx) || !is_whole(other) || failures_.of(norm) != failures_.of(sum))
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
