#include <algorithm>
#include <iterator>
#include <set>

#include <sluice/operator/detail/families.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/failures.h>

namespace sluice::graph {

namespace {

using sluice::detail::OperatorList;

// Of ours the kernels are known: what they compute with does not make them fail.
bool is_ours(const Operator* op) {
  static const std::set<const Operator*> ours = [] {
    std::set<const Operator*> all;
    for (const OperatorList family : {sluice::detail::elementwise_operators(), sluice::detail::fused_operators(),
                                      sluice::detail::view_operators(),        sluice::detail::matmul_operators(),
                                      sluice::detail::conv_operators(),        sluice::detail::pool_operators(),
                                      sluice::detail::norm_operators(),        sluice::detail::reduce_operators(),
                                      sluice::detail::softmax_operators(),     sluice::detail::gather_operators(),
                                      sluice::detail::concat_operators(),      sluice::detail::control_operators(),
                                      sluice::detail::walk_operators(),        sluice::detail::scan_operators(),
                                      sluice::detail::diff_operators(),        sluice::detail::place_operators(),
                                      sluice::detail::order_operators(),       sluice::detail::search_operators(),
                                      sluice::detail::count_operators(),       sluice::detail::random_operators(),
                                      sluice::detail::update_operators(),      sluice::detail::product_operators()})
      all.insert(family.begin(), family.end());
    return all;
  }();
  return ours.contains(op);
}

bool is_of(OperatorList family, const Operator* op) {
  return std::find(family.begin(), family.end(), op) != family.end();
}

bool may_fail(const Graph& graph, const Node& node) {
  if (node.is_view())
    return false;
  if (is_of(sluice::detail::control_operators(), node.op) || !is_ours(node.op))
    return true;
  // Integers are places there, or labels.
  const OperatorList with_places[] = {
      sluice::detail::gather_operators(),
      sluice::detail::softmax_operators(),
      sluice::detail::place_operators(),
      sluice::detail::scan_operators()};
  const bool takes_places = std::any_of(
      std::begin(with_places), std::end(with_places), [&](OperatorList family) { return is_of(family, node.op); });
  return takes_places && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
           return is_integer(graph.values[input].spec.dtype);
         });
}

}  // namespace

Failures::Failures(const Graph& graph) : of_node_(graph.nodes.size()) {
  std::vector<std::size_t> of_root(graph.values.size(), number_of({}));
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    std::size_t lost = may_fail(graph, node) ? number_of({at}) : number_of({});
    for_each_read(graph, node, [&](ValueId root) { lost = joined(lost, of_root[root]); });
    of_node_[at] = lost;
    for_each_write(graph, node, [&](ValueId root) { of_root[root] = joined(lost, of_root[root]); });
  }
}

std::size_t Failures::joined(std::size_t a, std::size_t b) {
  if (a == b)
    return a;
  std::vector<std::size_t> both;
  std::set_union(nodes_[a].begin(), nodes_[a].end(), nodes_[b].begin(), nodes_[b].end(), std::back_inserter(both));
  return number_of(both);
}

std::size_t Failures::number_of(const std::vector<std::size_t>& nodes) {
  const auto [known, is_new] = numbers_.emplace(nodes, nodes_.size());
  if (is_new)
    nodes_.push_back(nodes);
  return known->second;
}

}  // namespace sluice::graph
