#include <algorithm>
#include <utility>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/control/detail/body.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/replay.h>
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
        input.attach_grad(GradReq::write, {});
    }
    return program(inputs);
  });
  return {graph::without_dead_code(graph), tracer.captured()};
}

namespace {

struct Mode {
  bool create, training;
};

NDArray zeros_of(const ArraySpec& spec) {
  return zeros(spec.shape, {.dtype = spec.dtype, .device = spec.device});
}

Arrays gradients_of(
    const graph::Graph& body,
    const Arrays& inputs,
    const std::vector<NDArray>& weights,
    const std::vector<Wanted>& wanted,
    const std::vector<bool>& heads,
    Mode mode) {
  Arrays results;
  {
    const autograd::ModeScope recorded(true, mode.training);
    results = graph::replay(body, inputs);
  }
  std::vector<NDArray> from, weighted, variables;
  std::size_t next = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (!heads[i])
      continue;
    if (autograd::on_tape(results[i])) {
      from.push_back(results[i]);
      weighted.push_back(weights[next]);
    }
    ++next;
  }
  for (const Wanted& one : wanted) {
    if (one.input)
      variables.push_back(inputs[*one.input]);
  }
  std::vector<NDArray> found;
  if (!from.empty())
    found = autograd::grad(from, variables, weighted, {.create_graph = mode.create, .train_mode = mode.training});
  Arrays gradients;
  next = 0;
  for (const Wanted& one : wanted) {
    const bool is_found = one.input && !found.empty();
    const ArraySpec spec = one.input ? specs_of(body, body.inputs)[*one.input] : one.spec;
    gradients.push_back(is_found ? found[next] : zeros_of(spec));
    next += one.input.has_value();
  }
  return gradients;
}

}  // namespace

Body derive(const graph::Graph& body, const std::vector<Wanted>& wanted, const std::vector<bool>& heads) {
  const bool create = autograd::is_recording(), training = autograd::is_training();
  graph::Tracer tracer(graph::Outside::captured);
  Arrays inputs;
  std::vector<NDArray> weights;
  for (const ArraySpec& spec : specs_of(body, body.inputs))
    inputs.push_back(tracer.input(spec));
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i])
      weights.push_back(tracer.input(specs_of(body, body.outputs)[i]));
  }
  const auto gradients = [&] {
    for (NDArray& input : inputs) {
      if (is_floating(input.dtype()))
        input.attach_grad(GradReq::write, {});
    }
    for (NDArray& weight : weights) {
      if (create)
        weight.attach_grad(GradReq::write, {});
    }
    return gradients_of(body, inputs, weights, wanted, heads, {create, training});
  };
  const autograd::ModeScope mode(create, training);
  const graph::Graph graph = tracer.trace(gradients);
  return {graph::without_dead_code(graph), tracer.captured()};
}

std::string key_of(const std::vector<bool>& wanted, const std::vector<bool>& heads) {
  std::string key = message(autograd::is_recording(), autograd::is_training(), ':');
  for (const bool one : wanted)
    key += one ? '1' : '0';
  key += ':';
  for (const bool one : heads)
    key += one ? '1' : '0';
  return key;
}

void check_repeatable(const char* op, const char* what, const Body& body) {
  const char* const why = why_not_repeatable(body.graph);
  require<UnsupportedError>(why == nullptr, [&] {
    return message(op, ": the ", what, ' ', why, ", which one that is part of a graph cannot");
  });
}

const char* why_not_repeatable(const graph::Graph& graph) {
  for (const graph::Value& value : graph.values) {
    if (value.source == graph::Source::random)
      return "draws random numbers";
  }
  for (const graph::Node& node : graph.nodes) {  // a file does not say which numbers a node draws
    if (node.op->random != nullptr)
      return "draws random numbers";
  }
  const std::vector<bool> rewritten = graph::rewritten_roots(graph);
  const bool writes =
      std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](graph::ValueId input) { return rewritten[input]; });
  return writes ? "writes arrays in place that are there before" : nullptr;
}

std::vector<ArraySpec> specs_of(const graph::Graph& graph, std::span<const graph::ValueId> ids) {
  std::vector<ArraySpec> specs;
  for (const graph::ValueId id : ids)
    specs.push_back(graph.values[id].spec);
  return specs;
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
