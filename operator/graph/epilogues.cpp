#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/shallow.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/graph/detail/dependencies.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/norm/norm.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

using sluice::detail::BatchNormAttributes;
using sluice::detail::BatchNormFoldAttributes;
using sluice::detail::ConvolutionAttributes;
using sluice::detail::ConvolutionFusedAttributes;

/// A convolution and what alone reads it, one after the other; the last node stays where it is.
struct Chain {
  std::vector<std::size_t> nodes = {};
  std::optional<std::size_t> norm = {};
  std::optional<ValueId> residual = {};
  bool relu = false;
};

class Chains {
 public:
  explicit Chains(const Graph& graph)
      : graph_(graph), order_(graph), is_output_(graph.values.size()), taken_(graph.nodes.size()) {
    for (const ValueId output : graph.outputs)
      is_output_[output] = true;
  }

  /// The longest one that begins there.
  Chain of(std::size_t at, Rounding rounding) {
    const Node& node = graph_.nodes[at];
    Chain chain;
    chain.nodes = {at};
    if (taken_[at] || !node.results[0].made)
      return chain;
    if (node.op == &sluice::detail::convolution_op) {
      if (rounding == Rounding::once) {
        take_norm(chain);
        take_residual(chain);
      }
      take_relu(chain);
    }
    for (const std::size_t one : chain.nodes)
      taken_[one] = chain.nodes.size() > 1;
    return chain;
  }

 private:
  ValueId value_of(const Chain& chain) const { return graph_.nodes[chain.nodes.back()].results[0].value; }

  // The node that alone reads what the chain gives so far, once, and makes an array as large; what the chain reads is
  // still there when it runs.
  std::optional<std::size_t> next(const Chain& chain) const {
    const ValueId value = value_of(chain);
    const auto& named = order_.named_by[value];
    if (is_output_[value] || named.size() != 1 || taken_[named.front()])
      return std::nullopt;
    const std::size_t at = named.front();
    const Node& node = graph_.nodes[at];
    if (node.is_view() || node.results.empty() || !node.results[0].made ||
        std::count(node.inputs.begin(), node.inputs.end(), value) != 1 || !is_alike(value, node.results[0].value))
      return std::nullopt;
    for (const std::size_t one : chain.nodes) {
      if (is_changed(one, at))
        return std::nullopt;
    }
    return at;
  }
  bool is_alike(ValueId a, ValueId b) const {
    const ArraySpec &x = graph_.values[a].spec, &y = graph_.values[b].spec;
    return x.shape == y.shape && x.dtype == y.dtype;
  }
  // Is what the node at `from` reads written before `to`, or by the node there?
  bool is_changed(std::size_t from, std::size_t to) const {
    bool changed = false;
    for_each_read(graph_, graph_.nodes[from], [&](ValueId root) {
      for (std::size_t at = from + 1; at <= to; ++at)
        for_each_write(graph_, graph_.nodes[at], [&](ValueId written) { changed = changed || written == root; });
    });
    return changed;
  }

  void take_norm(Chain& chain) const {
    const auto at = next(chain);
    if (!at || graph_.nodes[*at].op != &sluice::detail::batch_norm_predict_op)
      return;
    const Node& node = graph_.nodes[*at];
    if (node.attributes.as<BatchNormAttributes>().axis != 1 || node.inputs[0] != value_of(chain) ||
        is_wanted(node.results[1].value) || is_wanted(node.results[2].value))
      return;
    chain.norm = *at;
    chain.nodes.push_back(*at);
  }
  bool is_wanted(ValueId value) const { return is_output_[value] || !order_.named_by[value].empty(); }

  void take_residual(Chain& chain) const {
    const auto at = next(chain);
    if (!at || graph_.nodes[*at].op != &sluice::detail::binary_operator(Binary::add))
      return;
    const Node& node = graph_.nodes[*at];
    if (node.inputs.size() != 2)
      return;
    const ValueId other = node.inputs[node.inputs[0] == value_of(chain) ? 1 : 0];
    if (!is_alike(other, value_of(chain)) || graph_.values[other].source == Source::shape)
      return;
    chain.residual = other;
    chain.nodes.push_back(*at);
  }

  void take_relu(Chain& chain) const {
    static const Operator* const relu = find_operator("relu");
    const auto at = next(chain);
    if (!at || graph_.nodes[*at].op != relu)
      return;
    chain.relu = true;
    chain.nodes.push_back(*at);
  }

  const Graph& graph_;
  const Dependencies order_;
  std::vector<bool> is_output_, taken_;
};

/// Makes nodes in place of chains.
class Fusing {
 public:
  Fusing(Graph& graph, Rounding rounding) : graph_(graph), rounding_(rounding) {}

  /// Nothing where the calls stay apart.
  std::vector<Node> nodes_of(const Chain& chain) {
    const Node& first = graph_.nodes[chain.nodes.front()];
    const bool bias = first.inputs.size() > 2;
    if (chain.norm || chain.residual)
      return fused(chain);
    // With a bias there is a pass over the result anyway.
    const bool relu = chain.relu || first.op == &sluice::detail::convolution_relu_op;
    if (rounding_ == Rounding::once && (relu || bias) && graph_.values[first.inputs[0]].spec.device.is_gpu() &&
        !is_shallow(first))
      return fused(chain);
    return chain.relu && bias ? std::vector<Node>{with_relu(chain)} : std::vector<Node>{};
  }

 private:
  // Such a kernel takes bias and relu along as it is, and rounds once too.
  bool is_shallow(const Node& node) const {
    const ArraySpec &x = graph_.values[node.inputs[0]].spec, &weight = graph_.values[node.inputs[1]].spec;
    const auto& how = node.attributes.as<ConvolutionAttributes>();
    return sluice::detail::is_shallow(
        sluice::detail::convolution_geometry(node.op->name, x.shape, weight.shape, x.dtype, how),
        sluice::detail::ConvolutionPass::forward);
  }

  // To the last bit: relu of a number that is rounded is relu of the number, rounded.
  Node with_relu(const Chain& chain) const {
    Node node = graph_.nodes[chain.nodes.front()];
    node.op = &sluice::detail::convolution_relu_op;
    node.results = graph_.nodes[chain.nodes.back()].results;
    return node;
  }

  std::vector<Node> fused(const Chain& chain) {
    const Node first = graph_.nodes[chain.nodes.front()];
    const auto& how = first.attributes.as<ConvolutionAttributes>();
    const std::optional<ValueId> bias = first.inputs.size() > 2 ? std::optional(first.inputs[2]) : std::nullopt;
    std::vector<Node> nodes;
    std::vector<ValueId> inputs{first.inputs[0], first.inputs[1]};
    if (chain.norm) {
      nodes.push_back(folded(graph_.nodes[*chain.norm], bias));
      inputs.push_back(nodes[0].results[0].value);
      inputs.push_back(nodes[0].results[1].value);
    } else if (bias) {
      inputs.push_back(in_wide_type(*bias, first.site, nodes));
    }
    if (chain.residual)
      inputs.push_back(*chain.residual);
    const ConvolutionFusedAttributes all{
        .stride = how.stride,
        .pad = how.pad,
        .dilation = how.dilation,
        .groups = how.groups,
        .scale = chain.norm.has_value(),
        .shift = chain.norm || bias,
        .residual = chain.residual.has_value(),
        .relu = chain.relu || first.op == &sluice::detail::convolution_relu_op};
    nodes.push_back(
        {.op = &sluice::detail::convolution_fused_op,
         .attributes = Attributes::of(all),
         .inputs = std::move(inputs),
         .results = {graph_.nodes[chain.nodes.back()].results[0]},
         .site = first.site});
    return nodes;
  }

  Node folded(const Node& norm, std::optional<ValueId> bias) {
    const auto& how = norm.attributes.as<BatchNormAttributes>();
    Node node{
        .op = &sluice::detail::batch_norm_fold_op,
        .attributes = Attributes::of(BatchNormFoldAttributes{.eps = how.eps, .fix_gamma = how.fix_gamma}),
        .inputs = {norm.inputs.begin() + 1, norm.inputs.end()},
        .site = norm.site};
    if (bias)
      node.inputs.push_back(*bias);
    ArraySpec spec = graph_.values[norm.inputs[1]].spec;
    spec.dtype = wide(spec.dtype);
    for (int i = 0; i < 2; ++i)
      node.results.push_back({.value = new_value(spec)});
    return node;
  }
  ValueId in_wide_type(ValueId bias, SourceLocation site, std::vector<Node>& nodes) {
    ArraySpec spec = graph_.values[bias].spec;
    if (spec.dtype == wide(spec.dtype))
      return bias;
    spec.dtype = wide(spec.dtype);
    const ValueId made = new_value(spec);
    nodes.push_back(
        {.op = &sluice::detail::k_cast,
         .attributes = Attributes::of(sluice::detail::TypeAttribute{spec.dtype}),
         .inputs = {bias},
         .results = {{.value = made}},
         .site = site});
    return made;
  }
  static DType wide(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }
  ValueId new_value(ArraySpec spec) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    spec.value = 0;
    graph_.values.push_back({.source = Source::result, .spec = spec, .root = id});
    return id;
  }

  Graph& graph_;
  const Rounding rounding_;
};

bool is_convolution(const Node& node) {
  return node.op == &sluice::detail::convolution_op || node.op == &sluice::detail::convolution_relu_op;
}

}  // namespace

Graph with_epilogues(const Graph& graph, Rounding rounding) {
  Graph made = with_shapes_apart(graph);
  Chains chains(made);
  std::vector<Chain> found;
  for (std::size_t at = 0; at < made.nodes.size(); ++at) {
    if (is_convolution(made.nodes[at]))
      found.push_back(chains.of(at, rounding));
  }
  Fusing fusing(made, rounding);
  std::vector<bool> gone(made.nodes.size());
  std::map<std::size_t, std::vector<Node>> fused;  // by the place of the last node
  for (const Chain& chain : found) {
    std::vector<Node> nodes = fusing.nodes_of(chain);
    if (nodes.empty())
      continue;
    for (const std::size_t at : chain.nodes)
      gone[at] = true;
    fused.emplace(chain.nodes.back(), std::move(nodes));
  }
  if (fused.empty())
    return graph;
  std::vector<Node> nodes;
  for (std::size_t at = 0; at < made.nodes.size(); ++at) {
    if (const auto here = fused.find(at); here != fused.end())
      std::move(here->second.begin(), here->second.end(), std::back_inserter(nodes));
    else if (!gone[at])
      nodes.push_back(std::move(made.nodes[at]));
  }
  made.nodes = std::move(nodes);
  return made;
}

}  // namespace sluice::graph
