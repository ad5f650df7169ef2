#include <algorithm>
#include <utility>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/control/detail/body.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/trace.h>

namespace sluice::control {

Body trace_body(const std::function<Arrays(const Arrays&)>& program, std::span<const ArraySpec> specs) {
  graph::Tracer tracer(graph::Outside::captured);
  Arrays inputs;
  for (const ArraySpec& spec : specs)
    inputs.push_back(tracer.input({spec.shape, spec.dtype, spec.device}));
  graph::Graph graph = tracer.trace([&] {
    // Any of them may be on the tape at some turn.
    for (NDArray& input : inputs) {
      if (autograd::is_recording() && is_floating(input.dtype()))
        input.attach_grad();
    }
    return program(inputs);
  });
  return {graph::without_dead_code(graph), tracer.captured()};
}

const char* why_not_repeatable(const graph::Graph& graph) {
  for (const graph::Value& value : graph.values) {
    if (value.source == graph::Source::random)
      return "draws random numbers";
  }
  const std::vector<bool> rewritten = graph::rewritten_roots(graph);
  const bool writes =
      std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](graph::ValueId input) { return rewritten[input]; });
  return writes ? "writes arrays in place that are there before" : nullptr;
}

std::vector<ArraySpec> specs_of(std::span<const NDArray> arrays) {
  std::vector<ArraySpec> specs;
  for (const NDArray& array : arrays)
    specs.push_back({array.shape(), array.dtype(), array.device()});
  return specs;
}

std::vector<ArraySpec> specs_of_outputs(
    const ForeachBody& body, const std::vector<ArraySpec>& entries, const Arrays& states, const char* op) {
  std::vector<ArraySpec> given = entries, outputs;
  for (const ArraySpec& spec : specs_of(states))
    given.push_back(spec);
  (void)trace_body(
      [&](const Arrays& inputs) {
        const auto behind = inputs.begin() + static_cast<std::ptrdiff_t>(entries.size());
        const LoopResult result = body({inputs.begin(), behind}, {behind, inputs.end()});
        Turns turns(op, {behind, inputs.end()});
        turns.add(result);
        outputs = specs_of(result.outputs);
        return Arrays{};
      },
      given);
  return outputs;
}

}  // namespace sluice::control
