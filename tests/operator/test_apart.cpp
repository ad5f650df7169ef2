// Two passes alone: gradients of biases beside those of weights, and what only ends gradients taken out.
#include <algorithm>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/view/attributes.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

std::size_t count(const Graph& graph, const std::string& op) {
  return static_cast<std::size_t>(std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == op; }));
}

NDArray detached(const NDArray& x) {
  return invoke_one(sluice::detail::k_detach, {x}, {}, SourceLocation::current());
}

/// Gradients of a dense layer's weight and bias.
Graph dense_gradients(Device device, std::int64_t rows, std::int64_t units, bool bias) {
  Tracer tracer;
  const NDArray x = tracer.input({{rows, units}, float32, device}), dy = tracer.input({{rows, units}, float32, device});
  NDArray weight = full({units, units}, 0.5, {.device = device}), shift = full({units}, 0.5, {.device = device});
  weight.attach_grad();
  shift.attach_grad();
  return tracer.trace([&] {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = bias ? dense(x, weight, shift) : dense(x, weight, {});
    }
    std::vector<NDArray> variables{weight};
    if (bias)
      variables.push_back(shift);
    const std::vector<NDArray> heads{dy};
    Arrays made;
    for (const NDArray& gradient : autograd::grad({&y, 1}, variables, heads))
      made.push_back(gradient);
    return made;
  });
}

}  // namespace

TEST_CASE("A bias's gradient goes beside its weight's on a GPU where both are kernels", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Graph before = dense_gradients(gpu(0), 1100, 8, true);
  REQUIRE(count(before, "dense_backward_weights") == 1);
  const Graph after = with_biases_apart(before);
  verify(after);
  CHECK(after.nodes.size() == before.nodes.size() + 1);
  CHECK(count(after, "dense_backward_weights") == 1);
  CHECK(count(after, "dense_backward_bias") == 1);
  const NDArray inputs[] = {random_array({1100, 8}, 1).to(gpu(0)), random_array({1100, 8}, 2).to(gpu(0))};
  const Arrays wanted = evaluate(before, inputs), got = evaluate(after, inputs);
  CHECK(all_bytes({got[0]}) == all_bytes({wanted[0]}));
  CHECK(differences(got[1], wanted[1], {1e-5, 1e-5}) == "");
  // Nothing to take apart: one kernel gives both, or there is no bias.
  for (const Graph& graph : {dense_gradients(gpu(0), 2, 3, true), dense_gradients(gpu(0), 1100, 8, false)})
    CHECK(with_biases_apart(graph).nodes.size() == graph.nodes.size());
}

TEST_CASE("On a CPU a bias's gradient stays with its weight's", "[graph]") {
  const Graph graph = dense_gradients(cpu(), 1100, 8, true);
  CHECK(count(with_biases_apart(graph), "dense_backward_bias") == count(graph, "dense_backward_bias"));
  CHECK(with_biases_apart(graph).nodes.size() == graph.nodes.size());
}

TEST_CASE("Without nodes that end gradients a graph reads what they stood for", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input({{3}, float32, cpu()});
  const Graph before = tracer.trace([&] {
    const NDArray y = detached(exp(x));
    return Arrays{y * detached(x) + detached(detached(y)), y};
  });
  REQUIRE(count(before, "detach") == 4);
  const Graph after = without_detached(before);
  verify(after);
  CHECK(count(after, "detach") == 0);
  CHECK(after.nodes.size() == before.nodes.size() - 4);
  CHECK(after.outputs[1] == after.nodes[0].results[0].value);
  const NDArray given = array<float>({0.5f, -1, 2});
  CHECK(all_bytes(evaluate(after, {&given, 1})) == all_bytes(evaluate(before, {&given, 1})));
}

TEST_CASE("Writes through a view that ends gradients still reach what it is of", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input({{3}, float32, cpu()});
  const Graph before = tracer.trace([&] {
    const NDArray y = x * 2.0;
    NDArray apart = detached(y);
    apart += 1.0;
    return Arrays{y * 3.0};
  });
  REQUIRE(count(before, "detach") == 1);
  const Graph after = without_detached(before);
  verify(after);
  CHECK(count(after, "detach") == 0);
  const NDArray given = array<float>({0.5f, -1, 2});
  CHECK(evaluate(after, {&given, 1})[0].to_vector<float>() == std::vector<float>{6, -3, 15});
  CHECK(all_bytes(evaluate(after, {&given, 1})) == all_bytes(evaluate(before, {&given, 1})));
}
