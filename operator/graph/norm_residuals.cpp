// On a GPU the gradient of a batch norm with a sum and a relu behind it is one call, which takes along the relu's mask
// and the sum of two heads.
#include <algorithm>
#include <optional>

#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/graph/detail/copies.h>
#include <sluice/operator/graph/detail/failures.h>
#include <sluice/operator/graph/detail/node_edits.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/norm/norm.h>

namespace sluice::graph {

namespace {

class NormResiduals {
 public:
  explicit NormResiduals(Graph& graph) : graph_(graph), edits_(graph), failures_(graph), maker_(edits_.order.maker) {}

  /// False if nothing has changed.
  bool run() {
    bool changed = false;
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      if (graph_.nodes[at].op == &sluice::detail::batch_norm_backward_op)
        changed = take_mask(at) || changed;
    }
    edits_.finish();
    return changed;
  }

 private:
  /// The call that is to be, and the nodes that it stands for.
  struct Found {
    std::size_t norm, mask;
    std::size_t place;  // of one of the two, where the call runs
    std::optional<std::size_t> sum = {};
  };

  bool is_alike(ValueId a, ValueId b) const {
    const ArraySpec &x = edits_.spec(a), &y = edits_.spec(b);
    return x.shape == y.shape && x.dtype == y.dtype;
  }

  bool take_mask(std::size_t at) {
    const Node& norm = graph_.nodes[at];
    const ValueId passed = norm.inputs[0];
    const auto mask = maker_[passed];
    if (!edits_.spec(passed).device.is_gpu() || !mask || edits_.is_gone(*mask) ||
        graph_.nodes[*mask].op != &sluice::detail::relu_backward_operator() || !graph_.nodes[*mask].results[0].made ||
        std::count(norm.inputs.begin(), norm.inputs.end(), passed) != 1 || failures_.of(*mask) != failures_.of(at))
      return false;
    const Node& masked = graph_.nodes[*mask];
    Found found{at, *mask, place_of(at, *mask)};
    if (!is_alike(masked.inputs[0], passed) || !is_alike(masked.inputs[2], passed) || !lies_whole(masked.inputs[2]) ||
        !may_move(found))
      return false;
    found.sum = sum_of(found);
    if (!found.sum && (!lies_whole(masked.inputs[0]) || edits_.is_written(masked.inputs[0], *mask, found.place)))
      return false;
    combine(found);
    return true;
  }

  // Who reads the masked gradient before batch norm's does, as the graph is now, wants it by then.
  std::size_t place_of(std::size_t norm, std::size_t mask) const {
    const ValueId passed = graph_.nodes[norm].inputs[0];
    for (std::size_t at = mask + 1; at < norm; ++at) {
      const auto& inputs = graph_.nodes[at].inputs;
      if (!edits_.is_gone(at) && std::find(inputs.begin(), inputs.end(), passed) != inputs.end())
        return mask;
    }
    return norm;
  }

  bool lies_whole(ValueId value) const { return graph::lies_whole(graph_, maker_, value); }

  // Is all that the two read as it was where they are to run, and unread what batch norm's gradient writes?
  bool may_move(const Found& found) const {
    const Node& norm = graph_.nodes[found.norm];
    const Node& masked = graph_.nodes[found.mask];
    if (edits_.is_written(masked.inputs[2], found.mask, found.place) ||
        edits_.is_written(norm.inputs[0], found.mask + 1, found.norm))
      return false;
    if (found.place == found.norm)
      return true;
    for (std::size_t i = 1; i < norm.inputs.size(); ++i) {
      const auto& maker = maker_[norm.inputs[i]];
      if ((maker && *maker >= found.place) || edits_.is_written(norm.inputs[i], found.place, found.norm))
        return false;
    }
    return std::all_of(norm.results.begin(), norm.results.end(), [](const Result& result) { return result.made; });
  }

  // The node that adds up two heads for the mask alone, if both are still there.
  std::optional<std::size_t> sum_of(const Found& found) const {
    const ValueId head = graph_.nodes[found.mask].inputs[0];
    const auto at = maker_[head];
    if (!at || edits_.is_gone(*at) || edits_.only_reader(head) != found.mask)
      return std::nullopt;
    const Node& sum = graph_.nodes[*at];
    if (sum.op != &sluice::detail::binary_operator(Binary::add) || sum.inputs.size() != 2 || !sum.results[0].made ||
        edits_.is_written(head, *at + 1, found.mask))
      return std::nullopt;
    for (const ValueId input : sum.inputs) {
      if (!is_alike(input, head) || !lies_whole(input) || graph_.values[input].source == Source::shape ||
          edits_.is_written(input, *at, found.place))
        return std::nullopt;
    }
    return at;
  }

  void combine(const Found& found) {
    const Node& masked = graph_.nodes[found.mask];
    Node made = graph_.nodes[found.norm];
    made.op = &sluice::detail::batch_norm_add_relu_backward_op;
    made.inputs[0] = masked.inputs[0];
    made.inputs.push_back(masked.inputs[2]);
    if (found.sum) {
      const Node& sum = graph_.nodes[*found.sum];
      made.inputs[0] = sum.inputs[0];
      made.inputs.push_back(sum.inputs[1]);
      edits_.drop(*found.sum);
    }
    made.results.push_back(masked.results[0]);
    edits_.drop(found.place == found.norm ? found.mask : found.norm);
    for (const Result& result : made.results) {
      if (result.made)
        maker_[result.value] = found.place;
    }
    graph_.nodes[found.place] = std::move(made);
  }

  Graph& graph_;
  NodeEdits edits_;
  const Failures failures_;
  std::vector<std::optional<std::size_t>> maker_;  // by value, as the graph is now
};

}  // namespace

Graph with_norm_residuals(const Graph& graph) {
  Graph made = with_shapes_apart(graph);
  return NormResiduals(made).run() ? made : graph;
}

}  // namespace sluice::graph
