// On a GPU layer norm in float32 writes its result as the half type that alone is read of it, and its gradient reads
// the half type that its head was widened from.
#include <algorithm>
#include <optional>
#include <string_view>

#include <sluice/operator/graph/detail/copies.h>
#include <sluice/operator/graph/detail/node_edits.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/norm/layer_norm_kernels.h>

namespace sluice::graph {

namespace {

using sluice::detail::LayerNormAttributes;

class NormCasts {
 public:
  explicit NormCasts(Graph& graph) : graph_(graph), edits_(graph) {}

  /// False if nothing has changed.
  bool run() {
    bool changed = false;
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      const Operator* const op = graph_.nodes[at].op;
      if (op == &sluice::detail::layer_norm_op || op == &sluice::detail::rms_norm_op)
        changed = round_result(at) || changed;
      else if (op == &sluice::detail::layer_norm_backward_op || op == &sluice::detail::rms_norm_backward_op)
        changed = take_head(at) || changed;
    }
    edits_.finish();
    return changed;
  }

 private:
  const ArraySpec& spec(ValueId value) const { return edits_.spec(value); }

  bool is_cast(const Node& node) const { return makes_copy(graph_, node); }
  bool is_on_gpu(const Node& node) const { return spec(node.inputs[0]).device.is_gpu(); }

  bool round_result(std::size_t at) {
    Node& norm = graph_.nodes[at];
    const auto reader = edits_.only_reader(norm.results[0].value);
    if (!norm.results[0].made || !is_on_gpu(norm) || !reader || !is_cast(graph_.nodes[*reader]))
      return false;
    const Result rounded = graph_.nodes[*reader].results[0];
    auto how = norm.attributes.as<LayerNormAttributes>();
    const DType result = spec(rounded.value).dtype, x = spec(norm.inputs[0]).dtype;
    if (how.result || result == x || !sluice::detail::norm_gives(x, result, norm.attributes))
      return false;
    how.result = result;
    norm.attributes = Attributes::of(how);
    norm.results[0] = rounded;
    edits_.drop(*reader);
    return true;
  }

  bool take_head(std::size_t at) {
    Node& backward = graph_.nodes[at];
    const auto maker = edits_.order.maker[backward.inputs[0]];
    if (!maker || edits_.is_gone(*maker) || !is_on_gpu(backward) || edits_.only_reader(backward.inputs[0]) != at)
      return false;
    const Node& cast = graph_.nodes[*maker];
    const bool is_whole = begins_new_memory(cast.inputs[0]);
    const bool is_head_alone = std::count(backward.inputs.begin(), backward.inputs.end(), backward.inputs[0]) == 1;
    if (!is_cast(cast) || !is_whole || !is_head_alone || edits_.is_written(cast.inputs[0], *maker, at))
      return false;
    const DType head = spec(cast.inputs[0]).dtype, x = spec(backward.inputs[1]).dtype;
    if (head == x || spec(backward.inputs[0]).dtype != x || !sluice::detail::norm_gives(x, head, backward.attributes))
      return false;
    backward.inputs[0] = cast.inputs[0];
    edits_.drop(*maker);
    return true;
  }

  // Other memory may begin where no vector does: rows would be summed up in another order than those of the cast.
  bool begins_new_memory(ValueId value) const {
    for (;;) {
      const auto maker = edits_.order.maker[value];
      if (!maker)
        return false;
      const Node& node = graph_.nodes[*maker];
      if (!node.is_view())
        return std::any_of(node.results.begin(), node.results.end(), [&](const Result& result) {
          return result.made && result.value == value;
        });
      const std::string_view view = node.op->name;
      if (view != "reshape" && view != "expand_dims" && view != "squeeze")
        return false;
      value = node.inputs[0];
    }
  }

  Graph& graph_;
  NodeEdits edits_;
};

}  // namespace

Graph with_norm_casts(const Graph& graph) {
  Graph made = with_shapes_apart(graph);
  return NormCasts(made).run() ? made : graph;
}

}  // namespace sluice::graph
