#include <algorithm>
#include <map>
#include <optional>

#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/graph/detail/dependencies.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/softmax/kernels.h>

namespace sluice::graph {

namespace {

/// What one node in place of others is, and those that go.
struct Combined {
  Node node;
  std::vector<std::size_t> gone;
};

class Combinations {
 public:
  explicit Combinations(const Graph& graph) : graph_(graph), order_(graph), is_output_(graph.values.size()) {
    for (const ValueId output : graph.outputs)
      is_output_[output] = true;
  }

  /// Of the node at that place, which stays where it is, and earlier ones.
  std::optional<Combined> of(std::size_t at) const {
    const Node& node = graph_.nodes[at];
    if (node.op == &sluice::detail::relu_backward_operator())
      return masked_product(at);
    if (node.op == &k_softmax_cross_entropy_backward)
      return loss_and_gradient(at);
    return std::nullopt;
  }

 private:
  /// A product that goes to the gradient of a relu alone, through views of the same shape at most.
  std::optional<Combined> masked_product(std::size_t at) const {
    const Node& relu = graph_.nodes[at];
    std::vector<std::size_t> gone;
    ValueId from = relu.inputs[0];
    for (std::size_t reader = at;; reader = gone.back()) {
      const auto maker = order_.maker[from];
      if (!maker || !is_read_only_by(from, reader))
        return std::nullopt;
      gone.push_back(*maker);
      if (!graph_.nodes[*maker].is_view())
        break;
      from = graph_.nodes[*maker].inputs[0];
    }
    const Node& product = graph_.nodes[gone.back()];
    const ArraySpec& made = graph_.values[from].spec;
    if (product.op != &sluice::detail::matmul_op || graph_.root(from) != from || !is_floating(made.dtype) ||
        made.shape != graph_.values[relu.results[0].value].spec.shape || relu.inputs[1] != relu.inputs[0] ||
        graph_.root(relu.inputs[2]) == from || is_changed(product, gone.back(), at))
      return std::nullopt;
    return Combined{
        {.op = &sluice::detail::matmul_relu_backward_op,
         .attributes = product.attributes,
         .inputs = {product.inputs[0], product.inputs[1], relu.inputs[2]},
         .results = relu.results,
         .site = product.site},
        std::move(gone)};
  }

  /// A loss, of which nobody but the caller wants to know anything before its gradient is there.
  std::optional<Combined> loss_and_gradient(std::size_t at) const {
    const Node& gradient = graph_.nodes[at];
    const ValueId saved = gradient.inputs[2];
    const auto maker = order_.maker[saved];
    if (!maker || graph_.nodes[*maker].op != &k_softmax_cross_entropy || !is_read_only_by(saved, at))
      return std::nullopt;
    const Node& loss = graph_.nodes[*maker];
    if (loss.inputs[0] != gradient.inputs[0] || loss.inputs[1] != gradient.inputs[1] ||
        loss.results[1].value != saved || !loss.results[0].made ||
        loss.attributes.values() != gradient.attributes.values() || is_named_before(loss.results[0].value, at) ||
        is_changed(loss, *maker, at) || graph_.root(gradient.results[0].value) == graph_.root(loss.results[0].value))
      return std::nullopt;
    return Combined{
        {.op = &k_softmax_cross_entropy_both,
         .attributes = loss.attributes,
         .inputs = {loss.inputs[0], loss.inputs[1], gradient.inputs[3]},
         .results = {loss.results[0], loss.results[1], gradient.results[0]},
         .site = loss.site},
        {*maker}};
  }

  bool is_read_only_by(ValueId value, std::size_t reader) const {
    const auto& named = order_.named_by[value];
    return !is_output_[value] && named.size() == 1 && named.front() == reader;
  }
  // Nobody looks at it, through views neither, until then; whoever is at `node` itself does not either.
  bool is_named_before(ValueId value, std::size_t node) const {
    const auto& named = order_.named_by[value];
    return std::any_of(named.begin(), named.end(), [&](std::size_t by) { return by <= node; });
  }
  // Is what the node at `from` reads written before `to`, or by the node there?
  bool is_changed(const Node& node, std::size_t from, std::size_t to) const {
    bool changed = false;
    for_each_read(graph_, node, [&](ValueId root) {
      for (std::size_t at = from + 1; at <= to; ++at)
        for_each_write(graph_, graph_.nodes[at], [&](ValueId written) { changed = changed || written == root; });
    });
    return changed;
  }

  const Graph& graph_;
  const Dependencies order_;
  std::vector<bool> is_output_;
};

}  // namespace

Graph with_combined_calls(const Graph& graph) {
  Graph apart = with_shapes_apart(graph);
  const Combinations combinations(apart);
  std::vector<bool> gone(apart.nodes.size());
  std::map<std::size_t, Node> combined;
  for (std::size_t at = 0; at < apart.nodes.size(); ++at) {
    if (auto found = combinations.of(at)) {
      for (const std::size_t node : found->gone)
        gone[node] = true;
      combined.emplace(at, std::move(found->node));
    }
  }
  if (combined.empty())
    return graph;
  std::vector<Node> nodes;
  for (std::size_t at = 0; at < apart.nodes.size(); ++at) {
    if (const auto found = combined.find(at); found != combined.end())
      nodes.push_back(std::move(found->second));
    else if (!gone[at])
      nodes.push_back(std::move(apart.nodes[at]));
  }
  apart.nodes = std::move(nodes);
  return apart;
}

}  // namespace sluice::graph
