// On a GPU batch norm takes along the relu behind it, and a sum between the two; so does its gradient.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/graph/detail/node_edits.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/norm/norm.h>

namespace sluice::graph {

namespace {

using sluice::detail::BatchNormAttributes;

class NormRelus {
 public:
  explicit NormRelus(Graph& graph) : graph_(graph), edits_(graph) {}

  /// False if nothing has changed.
  bool run() {
    bool changed = false;
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      const Operator* const op = graph_.nodes[at].op;
      if (op == &sluice::detail::batch_norm_op)
        changed = take_relu(at) || changed;
      else if (op == &sluice::detail::batch_norm_backward_op)
        changed = take_mask(at) || changed;
    }
    edits_.finish();
    return changed;
  }

 private:
  // The node that alone reads it, once, and makes one new array alike.
  std::optional<std::size_t> only_reader(ValueId value) const {
    const auto reader = edits_.only_reader(value);
    if (!reader)
      return std::nullopt;
    const Node& node = graph_.nodes[*reader];
    const bool once = std::count(node.inputs.begin(), node.inputs.end(), value) == 1;
    if (!once || node.is_view() || node.results.size() != 1 || !node.results[0].made ||
        !is_alike(value, node.results[0].value))
      return std::nullopt;
    return reader;
  }
  bool is_alike(ValueId a, ValueId b) const {
    const ArraySpec &x = edits_.spec(a), &y = edits_.spec(b);
    return x.shape == y.shape && x.dtype == y.dtype;
  }
  // What the sum at `at` adds to `value`, if that is there when the node at `norm` runs, and still is then what it was.
  std::optional<ValueId> added_to(ValueId value, std::size_t norm, std::size_t at) const {
    const Node& sum = graph_.nodes[at];
    if (sum.op != &sluice::detail::binary_operator(Binary::add) || sum.inputs.size() != 2)
      return std::nullopt;
    const ValueId other = sum.inputs[sum.inputs[0] == value ? 1 : 0];
    const auto maker = edits_.order.maker[other];
    if ((maker && *maker >= norm) || !is_alike(other, value) || graph_.values[other].source == Source::shape ||
        edits_.is_written(other, norm, at))
      return std::nullopt;
    return other;
  }

  bool take_relu(std::size_t at) {
    static const Operator* const relu = find_operator("relu");
    Node& norm = graph_.nodes[at];
    const ValueId value = norm.results[0].value;
    if (!norm.results[0].made || !graph_.values[value].spec.device.is_gpu())
      return false;
    std::optional<std::size_t> next = only_reader(value);
    std::optional<std::size_t> sum;
    std::optional<ValueId> added;
    if (next && graph_.nodes[*next].op != relu) {
      sum = next;
      added = added_to(value, at, *sum);
      next = added ? only_reader(graph_.nodes[*sum].results[0].value) : std::nullopt;
    }
    if (!next || graph_.nodes[*next].op != relu)
      return false;
    norm.op = &sluice::detail::batch_norm_relu_op;
    norm.results[0] = graph_.nodes[*next].results[0];
    edits_.drop(*next);
    if (sum) {
      norm.inputs.push_back(*added);
      edits_.drop(*sum);
    } else {
      by_result_.emplace(norm.results[0].value, at);
    }
    return true;
  }

  // Whether relu let an element through is computed again of what forward had, if it still has that.
  bool take_mask(std::size_t at) {
    Node& backward = graph_.nodes[at];
    const auto mask = edits_.order.maker[backward.inputs[0]];
    if (!mask || edits_.is_gone(*mask) || graph_.nodes[*mask].op != &sluice::detail::relu_backward_operator() ||
        only_reader_of_head(*mask) != at)
      return false;
    const Node& masked = graph_.nodes[*mask];
    const auto found = by_result_.find(masked.inputs[2]);
    if (found == by_result_.end() || !is_alike(masked.inputs[0], backward.inputs[0]))
      return false;
    const Node& norm = graph_.nodes[found->second];
    const bool same = backward.inputs[1] == norm.inputs[0] && backward.inputs[2] == norm.inputs[1] &&
                      backward.inputs[3] == norm.results[1].value && backward.inputs[4] == norm.results[2].value &&
                      is_same(backward, norm);
    const ValueId beta = norm.inputs[2];
    for (const ValueId read : {norm.inputs[0], norm.inputs[1], beta, norm.results[1].value, norm.results[2].value}) {
      if (!same || edits_.is_written(read, found->second + 1, at))
        return false;
    }
    if (edits_.is_written(masked.inputs[0], *mask, at) || edits_.is_written(masked.inputs[2], found->second + 1, *mask))
      return false;
    backward.op = &sluice::detail::batch_norm_relu_backward_op;
    backward.inputs[0] = masked.inputs[0];
    backward.inputs.push_back(beta);
    edits_.drop(*mask);
    return true;
  }
  // Of results that others read too the mask is an array anyway.
  std::optional<std::size_t> only_reader_of_head(std::size_t mask) const {
    const Result& result = graph_.nodes[mask].results[0];
    return result.made ? edits_.only_reader(result.value) : std::nullopt;
  }
  static bool is_same(const Node& backward, const Node& norm) {
    const auto &a = backward.attributes.as<BatchNormAttributes>(), &b = norm.attributes.as<BatchNormAttributes>();
    return a.eps == b.eps && a.axis == b.axis && a.fix_gamma == b.fix_gamma && a.batch_stats == b.batch_stats;
  }

  Graph& graph_;
  NodeEdits edits_;
  std::unordered_map<ValueId, std::size_t> by_result_;  // batch norms with a relu, and nothing added
};

}  // namespace

Graph with_norm_relus(const Graph& graph) {
  Graph made = with_shapes_apart(graph);
  return NormRelus(made).run() ? made : graph;
}

}  // namespace sluice::graph
