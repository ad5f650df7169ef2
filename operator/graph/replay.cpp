#include <algorithm>

#include <sluice/engine/origin.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/graph/detail/replay.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

namespace {

bool has_made(const Node& node) {
  return std::any_of(node.results.begin(), node.results.end(), [](const Result& result) { return result.made; });
}

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
    const bool in_place = node.has_destinations() && !has_made(node);
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

template <class E>
[[noreturn]] void refuse(const Graph& graph, std::size_t at, const Error& error) {
  const Node& node = graph.nodes[at];
  E named(message("graph: node ", at, " (", node.op->name, "): ", error.message()));
  named.locate(
      node.site.origin != 0 ? "in " + describe(node.site) : message("at ", node.site.file, ":", node.site.line));
  throw named;
}

// What a node says on other inputs than it was traced with: of shapes in the end, but for types and devices.
template <class Run>
void run_numbered(const Graph& graph, std::size_t at, const Run& run) {
  try {
    run();
  } catch (const DTypeError& error) {
    refuse<DTypeError>(graph, at, error);
  } catch (const DeviceError& error) {
    refuse<DeviceError>(graph, at, error);
  } catch (const UnsupportedError& error) {
    refuse<UnsupportedError>(graph, at, error);
  } catch (const ValueError& error) {
    refuse<ValueError>(graph, at, error);
  } catch (const ShapeError& error) {
    refuse<ShapeError>(graph, at, error);
  } catch (const IndexError& error) {
    refuse<ShapeError>(graph, at, error);
  }
}

}  // namespace

Arrays replay(const Graph& graph, std::span<const NDArray> inputs, const ReplayOptions& options) {
  Replay replay(graph, inputs, options.given);
  const auto run = [&](std::size_t at) {
    const Arrays results = replay.run_node(at);
    if (options.after)
      options.after(at, results);
  };
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    if (options.numbered)
      run_numbered(graph, at, [&] { run(at); });
    else
      run(at);
  }
  return replay.outputs();
}

}  // namespace sluice::graph
