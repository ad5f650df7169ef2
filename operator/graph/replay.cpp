#include <algorithm>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/autocast_here.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/graph/detail/numbered.h>
#include <sluice/operator/graph/detail/replay.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

namespace {

// Traced arrays lie row by row; where the real one does not and cannot be seen so, the view is of a copy.
NDArray viewable(const Node& node, const NDArray& base, const Shape* like) {
  if (base.is_contiguous())
    return base;
  try {
    (void)node.op->view(*node.op, sluice::detail::geometry_of(base), like, node.attributes);
    return base;
  } catch (const ShapeError&) {
    return base.copy(node.site);
  }
}

class Replay {
 public:
  Replay(const Graph& graph, std::span<const NDArray> inputs, GivenValues given)
      : graph_(graph), arrays_(graph.values.size()), last_(graph.values.size(), 0) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      arrays_[graph.inputs[i]] = inputs[i];
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      const Value& value = graph.values[id];
      if (value.source == Source::constant)
        arrays_[id] = value.array;
      if (value.source == Source::shape)
        arrays_[id] = shape_only(value.spec);
    }
    for (const auto& [id, array] : given)
      arrays_[id] = array;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at)
      for_each_value(graph.nodes[at], [&](ValueId id) { last_[id] = at; });
    for (const ValueId output : graph.outputs)
      last_[output] = graph.nodes.size();
  }

  Arrays run_node(std::size_t at) {
    const Node& node = graph_.nodes[at];
    Arrays operands = operands_of(node), destinations;
    const bool in_place = is_told_where(node);
    for (const auto [id, made] : node.results) {
      if (in_place)
        destinations.push_back(arrays_[id]);
    }
    // What was written unrecorded kept its place on the tape.
    const bool kept = in_place && !takes_gradients(node, operands);
    const autograd::ModeScope mode(autograd::is_recording() && !kept, autograd::is_training());
    Arrays results = invoke(*node.op, operands, node.attributes, node.site, destinations);
    require<ValueError>(results.size() == node.results.size(), [&] {
      return message(node.op->name, ": gives ", results.size(), " results, the graph has ", node.results.size());
    });
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto [id, made] = node.results[i];
      if (made)
        arrays_[id] = results[i];
      else if (!in_place)
        copy_into(results[i], arrays_[id], node.site);
    }
    for_each_value(node, [&](ValueId id) {
      if (last_[id] == at)
        arrays_[id] = {};
    });
    return results;
  }

  Arrays outputs() const {
    Arrays outputs;
    for (const ValueId output : graph_.outputs)
      outputs.push_back(arrays_[output]);
    return outputs;
  }

 private:
  template <class Each>
  static void for_each_value(const Node& node, const Each& each) {
    for (const ValueId input : node.inputs)
      each(input);
    for (const Result& result : node.results)
      each(result.value);
  }

  // All its results are there before it runs.
  bool is_told_where(const Node& node) const {
    return !node.results.empty() && std::all_of(node.results.begin(), node.results.end(), [&](const Result& result) {
      return arrays_[result.value].defined();
    });
  }

  static bool takes_gradients(const Node& node, const Arrays& operands) {
    if (node.op->gradient == nullptr && node.op->composition == nullptr)
      return false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!node.sees_shape_only(i) && sluice::detail::is_recorded({&operands[i], 1}))
        return true;
    }
    return false;
  }

  Arrays operands_of(const Node& node) const {
    Arrays operands;
    for (const ValueId input : node.inputs) {
      if (graph_.values[input].source != Source::random ||
          arrays_[input].defined())  // otherwise the call draws its own
        operands.push_back(arrays_[input]);
    }
    if (node.is_view() && !operands.empty() && operands[0].defined())
      operands[0] = viewable(node, operands[0], operands.size() > 1 ? &operands[1].object()->shape : nullptr);
    return operands;
  }

  const Graph& graph_;
  std::vector<NDArray> arrays_;
  std::vector<std::size_t> last_;  // node that uses the value
};

}  // namespace

Arrays replay(const Graph& graph, std::span<const NDArray> inputs, const ReplayOptions& options) {
  const sluice::detail::NoAutocast as_traced;
  Replay replay(graph, inputs, options.given);
  const auto run = [&](std::size_t at) {
    const Arrays results = replay.run_node(at);
    if (options.after)
      options.after(at, results);
  };
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    if (options.only != nullptr && !(*options.only)[at])
      continue;
    if (options.numbered)
      run_numbered(graph, at, [&] { run(at); });
    else
      run(at);
  }
  return replay.outputs();
}

}  // namespace sluice::graph
