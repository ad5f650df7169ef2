#pragma once

// Graphs with reductions, for tests of the pass that takes them in: traced, passed on, and run both ways.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>

#include "tests/operator/random_program.h"
#include "tests/operator/reduced_programs.h"
#include "tests/support/catch.h"

namespace sluice::test {

using Names = std::vector<std::string>;
using Body = std::function<Arrays(const std::vector<NDArray>&)>;

inline ArraySpec spec(const Shape& shape, DType dtype = float32, Device device = cpu()) {
  return {shape, dtype, device};
}

/// What the nodes of a graph are: "reduced(add, relu, sum)", "fused(add, relu)", "sum".
inline Names nodes_of(const graph::Graph& graph) {
  Names names;
  for (const graph::Node& node : graph.nodes) {
    if (node.op == &fused::k_fused_reduction)
      names.push_back("reduced(" + fused::names_of_calls(node.attributes) + ')');
    else if (node.op == &fused::k_fused)
      names.push_back("fused(" + fused::names_of_calls(fused::program_of(node.attributes)) + ')');
    else
      names.push_back(node.op->name);
  }
  return names;
}

inline bool has_reduced(const Names& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("reduced"); });
}

inline graph::Graph traced(const std::vector<ArraySpec>& specs, const Body& body) {
  graph::Tracer tracer;
  std::vector<NDArray> inputs;
  for (const ArraySpec& each : specs)
    inputs.push_back(tracer.input(each));
  return tracer.trace([&] { return body(inputs); });
}

inline std::vector<std::string> bits_of_all(const Arrays& arrays) {
  std::vector<std::string> all;
  for (const NDArray& array : arrays)
    all.push_back(bits_of(array));
  return all;
}

/// The nodes after both passes, when it is seen that the graph gives the same.
inline Names nodes_after(
    const std::vector<ArraySpec>& specs,
    const Body& body,
    graph::TakenReductions taken = graph::TakenReductions::profitable) {
  const graph::Graph graph = traced(specs, body);
  const graph::Graph fused = with_fused_reductions(with_fused_pointwise(graph), taken);
  verify(fused);
  Arrays given;
  for (const ArraySpec& each : specs)
    given.push_back(random_array(each.shape, given.size() + 1, -2, 2, each.dtype));
  const auto wanted = bits_of_all(evaluate(graph, given));
  graph::Plan plan(fused, {.optimise = false});
  for (int run = 0; run < 2; ++run)
    CHECK(bits_of_all(plan.run(given)) == wanted);
  CHECK(bits_of_all(evaluate(fused, given)) == wanted);
  return nodes_of(fused);
}

/// What is planned of `body` on the inputs of a program, when it is seen that runs give what it gives by hand.
inline graph::Graph graph_of_runs(
    const RandomProgram& program, const Body& body, graph::TakenReductions taken = graph::TakenReductions::profitable) {
  std::vector<ArraySpec> specs;
  for (const NDArray& input : program.inputs())
    specs.push_back(spec(input.shape(), float32, input.device()));
  const std::vector<NDArray> given(program.inputs().begin(), program.inputs().end());
  graph::Plan plan(traced(specs, body), {.reductions = taken});
  const auto wanted = bits_of_all(body(given));
  for (int run = 0; run < 2; ++run)
    REQUIRE(bits_of_all(plan.run(given)) == wanted);
  return plan.graph();
}

}  // namespace sluice::test
