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

/// What one node in place of others is, those that go, and those that then come right behind it.
struct Combined {
  Node node;
  std::vector<std::size_t> gone;
  std::vector<std::size_t> behind = {};
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

  /// A loss and its gradient, which need not know what comes of the loss: a mean, say, is computed behind both.
  std::optional<Combined> loss_and_gradient(std::size_t at) const {
    const Node& gradient = graph_.nodes[at];
    const ValueId saved = gradient.inputs[2];
    const auto maker = order_.maker[saved];
    if (!maker || graph_.nodes[*maker].op != &k_softmax_cross_entropy || !is_read_only_by(saved, at))
      return std::nullopt;
    const Node& loss = graph_.nodes[*maker];
    if (loss.inputs[0] != gradient.inputs[0] || loss.inputs[1] != gradient.inputs[1] ||
        loss.results[1].value != saved || !loss.results[0].made ||
        loss.attributes.values() != gradient.attributes.values() ||
        graph_.root(gradient.results[0].value) == graph_.root(loss.results[0].value))
      return std::nullopt;
    std::optional<std::vector<std::size_t>> behind = waiting_between(*maker, at);
    if (!behind)
      return std::nullopt;
    return Combined{
        {.op = &k_softmax_cross_entropy_both,
         .attributes = loss.attributes,
         .inputs = {loss.inputs[0], loss.inputs[1], gradient.inputs[3]},
         .results = {loss.results[0], loss.results[1], gradient.results[0]},
         .site = loss.site},
        {*maker},
        std::move(*behind)};
  }

  // Who waits for `from`, itself or through others, and stands before `to`; none where `to` waits for one of those.
  std::optional<std::vector<std::size_t>> waiting_between(std::size_t from, std::size_t to) const {
    std::vector<bool> waits(to + 1);
    std::vector<std::size_t> found;
    for (std::size_t at = from; at < to; ++at) {
      if (at != from && !waits[at])
        continue;
      if (at != from)
        found.push_back(at);
      for (const std::size_t next : order_.after[at]) {
        if (next == to && at != from)
          return std::nullopt;
        if (next < to)
          waits[next] = true;
      }
    }
    return found;
  }

  bool is_read_only_by(ValueId value, std::size_t reader) const {
    const auto& named = order_.named_by[value];
    return !is_output_[value] && named.size() == 1 && named.front() == reader;
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

/// The combinations of a graph that can be made at once: of those that move nodes one.
class CombinationsAtOnce {
 public:
  explicit CombinationsAtOnce(const Graph& graph) : gone_(graph.nodes.size()) {
    const Combinations combinations(graph);
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
      auto found = combinations.of(at);
      if (!found || (moves_ && !found->behind.empty()))
        continue;
      moves_ = moves_ || !found->behind.empty();
      for (const std::size_t node : found->gone)
        gone_[node] = true;
      for (const std::size_t node : found->behind)
        gone_[node] = true;
      combined_.emplace(at, std::move(*found));
    }
  }

  bool empty() const noexcept { return combined_.empty(); }

  std::vector<Node> take_from(std::vector<Node>& nodes) {
    std::vector<Node> made;
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      if (!gone_[at])
        put(at, nodes, made);
    }
    return made;
  }

 private:
  void put(std::size_t at, std::vector<Node>& nodes, std::vector<Node>& made) {
    const auto found = combined_.find(at);
    made.push_back(std::move(found == combined_.end() ? nodes[at] : found->second.node));
    if (found == combined_.end())
      return;
    for (const std::size_t node : found->second.behind) {
      if (!is_part(node))
        put(node, nodes, made);
    }
  }
  // Of another combination, in whose node it is.
  bool is_part(std::size_t node) const {
    return std::any_of(combined_.begin(), combined_.end(), [node](const auto& one) {
      const auto& parts = one.second.gone;
      return std::find(parts.begin(), parts.end(), node) != parts.end();
    });
  }

  std::vector<bool> gone_;
  std::map<std::size_t, Combined> combined_;
  bool moves_ = false;
};

}  // namespace

Graph with_combined_calls(const Graph& graph) {
  Graph apart = with_shapes_apart(graph);
  bool any = false;
  for (CombinationsAtOnce now(apart); !now.empty(); now = CombinationsAtOnce(apart)) {
    apart.nodes = now.take_from(apart.nodes);
    any = true;
  }
  return any ? apart : graph;
}

}  // namespace sluice::graph
