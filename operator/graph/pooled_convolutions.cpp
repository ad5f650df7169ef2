#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/passes.h>
#include <sluice/operator/conv/pooled.h>
#include <sluice/operator/graph/detail/node_edits.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/pool/geometry.h>
#include <sluice/operator/pool/pool.h>

namespace sluice::graph {

namespace {

using sluice::detail::ConvolutionAttributes;
using sluice::detail::PooledConvolutionAttributes;

/// A convolution, the pooling of its result, and their gradients, by node; `data` that of the convolution's x.
struct Pooled {
  std::size_t convolution = 0, pool = 0;
  std::optional<std::size_t> pool_backward = {}, relu_backward = {}, weights = {}, data = {};
  PooledConvolutionAttributes how = {};
};

class PooledConvolutions {
 public:
  explicit PooledConvolutions(NodeEdits& edits) : edits_(edits), graph_(edits.graph) {}

  /// False: the pooling stays as it is.
  bool take(std::size_t pool) {
    const std::optional<Pooled> found = of(pool);
    if (!found)
      return false;
    const ValueId places = new_places(*found);
    put_forward(*found, places);
    if (found->weights)
      put_backward(*found, places);
    return true;
  }

 private:
  const Node& node(std::size_t at) const { return graph_.nodes[at]; }

  std::optional<Pooled> of(std::size_t pool) const {
    Pooled found{.pool = pool};
    const auto convolution = edits_.order.maker[node(pool).inputs[0]];
    if (!convolution || !is_convolution(*convolution) || !is_made(node(pool)) || !windows_of(pool, found.how))
      return std::nullopt;
    found.convolution = *convolution;
    const Node& sums = node(*convolution);
    const auto& how = sums.attributes.as<ConvolutionAttributes>();
    found.how.stride = how.stride;
    found.how.pad = how.pad;
    found.how.dilation = how.dilation;
    found.how.groups = how.groups;
    const bool fits = find_gradients(found) && may_stand_at_last({found.convolution, pool});
    return fits ? std::optional(found) : std::nullopt;
  }

  bool is_convolution(std::size_t at) const {
    const ArraySpec& y = edits_.spec(node(at).results[0].value);
    return node(at).op == &sluice::detail::convolution_relu_op && is_made(node(at)) && !edits_.is_gone(at) &&
           y.dtype == DType::float32 && y.device.is_cpu();
  }
  static bool is_made(const Node& one) {
    return std::all_of(one.results.begin(), one.results.end(), [](const Result& result) { return result.made; });
  }

  // Windows have to lie inside and apart.
  bool windows_of(std::size_t pool, PooledConvolutionAttributes& how) const {
    const auto& attributes = node(pool).attributes.as<sluice::detail::PoolAttributes>();
    const auto g =
        sluice::detail::pool_geometry(node(pool).op->name, edits_.spec(node(pool).inputs[0]).shape, attributes);
    for (int axis = 0; axis < 2; ++axis) {
      if (g.pad[axis] != 0 || g.stride[axis] < g.kernel[axis] || g.out[axis] < 1 ||
          (g.out[axis] - 1) * g.stride[axis] + g.kernel[axis] > g.in[axis])
        return false;
    }
    how.pool_kernel = {g.kernel[0], g.kernel[1]};
    how.pool_stride = {g.stride[0], g.stride[1]};
    return sluice::detail::are_places_enough(how.pool_kernel);
  }

  // Those that read what the convolution gives and where the maxima are; false where others do too.
  bool find_gradients(Pooled& found) const {
    const ValueId y = node(found.convolution).results[0].value, places = node(found.pool).results[1].value;
    if (edits_.is_output(y) || edits_.is_output(places))
      return false;
    const auto& of_y = edits_.order.named_by[y];
    const auto& of_places = edits_.order.named_by[places];
    if (of_y.size() == 1 && of_places.empty())
      return true;
    if (of_y.size() != 2 || of_places.size() != 1)
      return false;
    found.pool_backward = of_places[0];
    const std::size_t reader = of_y[of_y[0] == found.pool ? 1 : 0];
    const Node& unpooled = node(*found.pool_backward);
    if (unpooled.op != &sluice::detail::max_pool2d_backward_op || unpooled.inputs[1] != places ||
        unpooled.attributes.values() != node(found.pool).attributes.values() || !is_made(unpooled) ||
        edits_.only_reader(unpooled.results[0].value) != reader)
      return false;
    const bool whole = node(reader).op == &sluice::detail::convolution_relu_backward_weights_op;
    return whole ? take_masked_weights(found, reader) : take_mask(found, reader);
  }

  // The mask along with the gradients of weight and bias.
  bool take_masked_weights(Pooled& found, std::size_t at) const {
    const Node& both = node(at);
    if (both.inputs[1] != unpooled_of(found) || both.inputs[2] != value_of(found) ||
        both.inputs[0] == value_of(found) || !is_of(found, both, both.inputs[0], both.inputs[3]))
      return false;
    found.weights = at;
    found.how.bias = both.results.size() > 1;
    return may_stand_at_last(gradients_of(found));
  }
  // Or alone, before one or both passes.
  bool take_mask(Pooled& found, std::size_t at) const {
    const Node& masked = node(at);
    found.relu_backward = at;
    return masked.op == &sluice::detail::convolution_relu_backward_op && masked.inputs[0] == unpooled_of(found) &&
           masked.inputs[1] == value_of(found) && masked.results[0].made && find_passes(found);
  }
  ValueId value_of(const Pooled& found) const { return node(found.convolution).results[0].value; }
  ValueId unpooled_of(const Pooled& found) const { return node(*found.pool_backward).results[0].value; }

  // Of the masked gradient: that of the weight, and maybe that of x.
  bool find_passes(Pooled& found) const {
    const Node& masked = node(*found.relu_backward);
    const ValueId dy = masked.results[0].value;
    if (edits_.is_output(dy))
      return false;
    for (const std::size_t at : edits_.order.named_by[dy]) {
      const Node& pass = node(at);
      const bool weights = pass.op == &sluice::detail::convolution_backward_weights_op && pass.inputs[1] == dy &&
                           pass.inputs[0] != dy && pass.results.size() == 1 && !found.weights;
      const bool data = pass.op == &sluice::detail::convolution_backward_data_op && pass.inputs[0] == dy &&
                        pass.inputs[1] != dy && !found.data;
      if ((!weights && !data) || !is_of(found, pass, pass.inputs[weights ? 0 : 2], pass.inputs[weights ? 2 : 1]))
        return false;
      (weights ? found.weights : found.data) = at;
    }
    if (!found.weights)
      return false;
    found.how.bias = masked.results.size() > 1;
    found.how.data = found.data.has_value();
    return may_stand_at_last(gradients_of(found));
  }
  // Is the pass one of the same convolution?
  bool is_of(const Pooled& found, const Node& pass, ValueId x, ValueId weight) const {
    const Node& sums = node(found.convolution);
    const auto &how = pass.attributes.as<ConvolutionAttributes>(),
               &forward = sums.attributes.as<ConvolutionAttributes>();
    return how.stride == forward.stride && how.pad == forward.pad && how.dilation == forward.dilation &&
           how.groups == forward.groups && edits_.spec(x).shape == edits_.spec(sums.inputs[0]).shape &&
           edits_.spec(weight).shape == edits_.spec(sums.inputs[1]).shape;
  }
  static std::vector<std::size_t> gradients_of(const Pooled& found) {
    std::vector<std::size_t> nodes{*found.pool_backward, *found.weights};
    for (const auto& other : {found.relu_backward, found.data})
      if (other)
        nodes.push_back(*other);
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }
  // Does nobody in between wait for what they do or write what they read? In order.
  bool may_stand_at_last(const std::vector<std::size_t>& nodes) const {
    for (const std::size_t at : nodes) {
      for (const std::size_t later : edits_.order.after[at]) {
        if (later < nodes.back() && !std::binary_search(nodes.begin(), nodes.end(), later))
          return false;
      }
    }
    return true;
  }

  ValueId new_places(const Pooled& found) {
    const Node& sums = node(found.convolution);
    const ArraySpec &x = edits_.spec(sums.inputs[0]), &weight = edits_.spec(sums.inputs[1]);
    const auto p = sluice::detail::pooled_geometry(sums.op->name, x.shape, weight.shape, x.dtype, found.how);
    const auto id = static_cast<ValueId>(graph_.values.size());
    const ArraySpec spec{p.places_shape(), DType::uint8, x.device};
    graph_.values.push_back({.source = Source::result, .spec = spec, .root = id});
    return id;
  }
  void put_forward(const Pooled& found, ValueId places) {
    PooledConvolutionAttributes how = found.how;
    how.bias = how.data = false;
    const Node& sums = node(found.convolution);
    Node& pool = graph_.nodes[found.pool];
    pool = {
        .op = &sluice::detail::convolution_relu_pool_op,
        .attributes = Attributes::of(how),
        .inputs = sums.inputs,
        .results = {pool.results[0], {.value = places}},
        .site = sums.site};
    edits_.drop(found.convolution);
  }
  void put_backward(const Pooled& found, ValueId places) {
    const Node& weights = node(*found.weights);
    const ValueId weight = found.data ? node(*found.data).inputs[1] : node(found.pool).inputs[1];
    Node made{
        .op = &sluice::detail::convolution_relu_pool_backward_op,
        .attributes = Attributes::of(found.how),
        .inputs = {node(*found.pool_backward).inputs[0], places, weights.inputs[0], weight},
        .results = {weights.results[0]},
        .site = weights.site};
    if (found.how.bias)
      made.results.push_back(node(found.relu_backward.value_or(*found.weights)).results[1]);
    if (found.data)
      made.results.push_back(node(*found.data).results[0]);
    const std::vector<std::size_t> nodes = gradients_of(found);
    for (const std::size_t at : nodes)
      if (at != nodes.back())
        edits_.drop(at);
    graph_.nodes[nodes.back()] = std::move(made);
  }

  NodeEdits& edits_;
  Graph& graph_;
};

}  // namespace

Graph with_pooled_convolutions(const Graph& graph) {
  Graph made = with_shapes_apart(graph);
  NodeEdits edits(made);
  PooledConvolutions pooled(edits);
  bool changed = false;
  for (std::size_t at = 0; at < made.nodes.size(); ++at) {
    if (!edits.is_gone(at) && made.nodes[at].op == &sluice::detail::max_pool2d_op)
      changed = pooled.take(at) || changed;
  }
  if (!changed)
    return graph;
  edits.finish();
  return made;
}

}  // namespace sluice::graph
