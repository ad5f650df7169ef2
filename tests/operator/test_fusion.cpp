// The pass that makes one node of several elementwise ones: which it takes, which it must not.
#include <algorithm>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/fused/fused.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

namespace {

ArraySpec spec(const Shape& shape, DType dtype = float32) {
  return {shape, dtype, cpu()};
}

/// What the nodes of a graph are: "fused(add, relu)", "sum".
std::vector<std::string> nodes_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.nodes) {
    std::string name = node.op->name;
    if (node.op == &fused::k_fused)
      name += '(' + fused::names_of_calls(fused::program_of(node.attributes)) + ')';
    names.push_back(std::move(name));
  }
  return names;
}

using Names = std::vector<std::string>;

template <class Body>
Graph traced(const std::vector<ArraySpec>& specs, const Body& body) {
  Tracer tracer;
  std::vector<NDArray> inputs;
  for (const ArraySpec& each : specs)
    inputs.push_back(tracer.input(each));
  return tracer.trace([&] { return body(inputs); });
}

/// The nodes after the pass, when it is seen that the graph gives the same.
template <class Body>
Names fused_nodes(const std::vector<ArraySpec>& specs, const Body& body) {
  const Graph graph = traced(specs, body);
  const Graph fused = with_fused_pointwise(graph);
  verify(fused);
  Arrays given;
  for (const ArraySpec& each : specs)
    given.push_back(random_array(each.shape, given.size() + 1, -2, 2, each.dtype));
  const auto wanted = all_bytes(evaluate(graph, given));
  Plan plan(fused, {.optimise = false});
  for (int run = 0; run < 2; ++run)
    CHECK(all_bytes(plan.run(given)) == wanted);
  CHECK(all_bytes(evaluate(fused, given)) == wanted);
  return nodes_of(fused);
}

}  // namespace

TEST_CASE("A chain of elementwise calls becomes one node, whatever is broadcast into it", "[fusion]") {
  CHECK(fused_nodes({spec({40, 30}), spec({30}), spec({40, 1})}, [](const auto& in) {
          return Arrays{relu((in[0] * 2.0 + in[1]) * in[2])};
        }) == Names{"fused(multiply, add, multiply, relu)"});
  CHECK(fused_nodes({spec({9}), spec({9}, float16)}, [](const auto& in) {
          const NDArray positive = in[0] > 0, half = in[0].astype(float16);
          return Arrays{where(positive, half, in[1]).astype(float32) + in[0]};
        }) == Names{"fused(greater, astype, where, astype, add)"});
}

TEST_CASE("A value that others use too is an output of the fused node", "[fusion]") {
  CHECK(fused_nodes({spec({40, 30})}, [](const auto& in) {
          const NDArray half = in[0] * 0.5, made = exp(half);
          return Arrays{made + half, sum(half), made};
        }) == Names{"fused(multiply, exp, add)", "sum"});
}

TEST_CASE("Nodes that read the same become one, where neither waits for the other", "[fusion]") {
  CHECK(fused_nodes({spec({40}), spec({40})}, [](const auto& in) {
          return Arrays{in[0] * 2.0, in[0] * in[1]};
        }) == Names{"fused(multiply, multiply)"});
  // The second one waits for the sum of the first.
  CHECK(fused_nodes({spec({40})}, [](const auto& in) {
          const NDArray one = in[0] * 2.0;
          return Arrays{in[0] * sum(one)};
        }) == Names{"multiply", "sum", "multiply"});
}

TEST_CASE("Nodes that are not lost with the same failures stay apart where both are seen", "[fusion]") {
  const std::vector<ArraySpec> specs{spec({4}), spec({4}, bool_)};
  // An index may be out of bounds: what is computed of the entries is lost then, the rest is not.
  const auto taken = [](const auto& in) { return take(in[0], in[1].astype(int32)); };
  CHECK(fused_nodes(specs, [&](const auto& in) {
          return Arrays{in[0] * 2.0, in[0] * taken(in)};
        }) == Names{"multiply", "astype", "take", "multiply"});
  CHECK(fused_nodes(specs, [&](const auto& in) {
          const NDArray whole = exp(in[0]);
          return Arrays{whole, whole * taken(in)};
        }).size() == 4);
  // Inside of one that is lost anyway nobody sees it; and what is lost together is one.
  CHECK(fused_nodes(specs, [&](const auto& in) {
          return Arrays{exp(in[0]) * taken(in)};
        }) == Names{"astype", "take", "fused(exp, multiply)"});
  CHECK(fused_nodes(specs, [&](const auto& in) {
          const NDArray entries = taken(in);
          return Arrays{entries * in[0], exp(entries), entries * entries};
        }) == Names{"astype", "take", "fused(multiply, exp, multiply)"});
  // Of two places each fails alone.
  CHECK(fused_nodes(specs, [&](const auto& in) {
          const NDArray first = taken(in), second = take(in[0], 1 - in[1].astype(int32));
          return Arrays{in[0] * first, in[0] * second};
        }).back() == "multiply");
}

TEST_CASE("A way through another node keeps nodes apart, also by way of another group", "[fusion]") {
  CHECK(fused_nodes({spec({6, 5})}, [](const auto& in) {
          const NDArray a = exp(in[0]), b = sin(a);
          const NDArray c = softmax(b);
          return Arrays{c + a};
        }) == Names{"fused(exp, sin)", "softmax", "add"});
  // Of two pairs one: with both each group would wait for the other.
  const Names both = fused_nodes({spec({6}), spec({6})}, [](const auto& in) {
    const NDArray a = exp(in[0]), b = exp(in[1]);
    const NDArray past_a = softmax(a), past_b = softmax(b);
    return Arrays{a * past_b, b * past_a};
  });
  CHECK(both.size() == 5);
}

TEST_CASE("Other shapes, views and values that never change stay out", "[fusion]") {
  CHECK(fused_nodes({spec({40, 30}), spec({30})}, [](const auto& in) {
          return Arrays{in[0] + exp(in[1])};  // the row is not worked out for each element
        }) == Names{"exp", "add"});
  CHECK(fused_nodes({spec({6, 5})}, [](const auto& in) {
          return Arrays{exp(sin(in[0]).T())};
        }) == Names{"sin", "transpose", "exp"});
  // Computed once, when the plan is made.
  CHECK(fused_nodes({spec({7})}, [&](const auto& in) {
          return Arrays{in[0] * sqrt(full({7}, 8.0) + 1.0)};
        }) == Names{"full", "fused(add, sqrt)", "multiply"});
}

TEST_CASE("A write stays behind what reads the memory before, and before what reads it after", "[fusion]") {
  CHECK(fused_nodes({spec({8}), spec({8})}, [](const auto& in) {
          NDArray sums = softmax(in[0]);
          const NDArray before = sums * 2.0;
          sums += in[1];
          const NDArray after = sums * 2.0;
          return Arrays{before - after, sums};
        }) == Names{"softmax", "fused(multiply, add)", "fused(multiply, subtract)"});
  // In parts.
  const Names parts = fused_nodes({spec({8, 4}), spec({8, 4})}, [](const auto& in) {
    const NDArray target = softmax(in[0]);
    const NDArray first = target * 2.0;
    target.slice(0, 0, 4).assign(exp(in[1].slice(0, 0, 4)) * 0.5);
    target.slice(0, 4, 8).assign(target.slice(0, 0, 4) + 1.0);
    return Arrays{target + first};
  });
  CHECK(std::count(parts.begin(), parts.end(), "fused(exp, multiply, copy)") == 1);
}

TEST_CASE("A result does not take the memory that its node also writes", "[fusion]") {
  const Names names = fused_nodes({spec({8}), spec({8})}, [](const auto& in) {
    const NDArray target = softmax(in[0]);
    const NDArray before = target * in[1];
    copy_into(in[1] * 3.0, target);
    return Arrays{before};
  });
  CHECK(names == Names{"softmax", "fused(multiply, multiply, copy)"});
}

TEST_CASE("A value that is written again is read as it was at each place", "[fusion]") {
  fused_nodes({spec({8})}, [](const auto& in) {
    NDArray value = exp(in[0]);
    const NDArray first = value + 1.0;
    value *= 2.0;
    const NDArray second = value + 1.0;
    value *= first;
    return Arrays{first * second + value, value};
  });
}

TEST_CASE("Gradients and arrays outside are written by the fused node itself", "[fusion]") {
  const NDArray kept = zeros({5}), sums = full({5}, 1.0);
  const Graph graph = traced({spec({5})}, [&](const auto& in) {
    copy_into(exp(in[0]) * 0.5, kept);
    NDArray total = sums;
    total += in[0] * 2.0;
    return Arrays{};
  });
  const Graph fused = optimised(graph);
  CHECK(nodes_of(fused) == Names{"fused(exp, multiply, multiply, add)"});
  Plan plan(graph);
  const NDArray given = array<float>({0, 1, 2, 3, 4});
  plan.run({&given, 1});
  plan.run({&given, 1});
  CHECK(all_bytes({kept}) == all_bytes({exp(given) * 0.5}));
  CHECK(sums.to_vector<float>() == std::vector<float>{1, 5, 9, 13, 17});
}

TEST_CASE("Random numbers are drawn in the order of the program where nodes between them move", "[fusion]") {
  const auto program = [] {
    const NDArray first = random::uniform({6});
    const NDArray twice = first * 2.0;
    const NDArray second = random::normal(0, 1, {6});
    const NDArray third = dropout(twice, 0.5);
    const NDArray fourth = random::uniform({6});
    return Arrays{twice + second, third * fourth, exp(fourth) * twice};
  };
  const autograd::TrainScope train;
  std::vector<std::string> wanted;
  {
    Engine engine({.seed = 9});
    const EngineScope scope(engine);
    wanted = all_bytes(program());
  }
  Engine engine({.seed = 9});
  const EngineScope scope(engine);
  Plan plan(Tracer().trace(program));
  CHECK(all_bytes(plan.run({})) == wanted);
  const Names names = nodes_of(plan.graph());
  CHECK(std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("fused"); }));
}

TEST_CASE("A group keeps the limits of its kernel", "[fusion]") {
  const Graph graph = traced(std::vector<ArraySpec>(12, spec({9})), [](const auto& in) {
    NDArray sum = in[0];
    for (int round = 0; round < 5; ++round) {
      for (std::size_t i = 1; i < 12; ++i)
        sum = sum * 0.5 + in[i];
    }
    return Arrays{sum};
  });
  const Graph fused = with_fused_pointwise(graph);
  std::size_t calls = 0;
  for (const graph::Node& node : fused.nodes) {
    if (node.op != &fused::k_fused) {
      ++calls;
      continue;
    }
    const fused::Program& program = fused::program_of(node.attributes);
    CHECK(program.inputs.size() <= 8);
    CHECK(program.outputs.size() <= 4);
    CHECK(program.calls.size() <= 32);
    calls += program.calls.size();
  }
  CHECK(calls == 110);
  CHECK(fused.nodes.size() < 20);
}

TEST_CASE("Denormals are what they are one by one: float64 keeps them, beside it float32 does not", "[fusion]") {
  const NDArray tiny = full({4}, 1e-310, {.dtype = float64}), small = full({4}, 1e-39f);
  const Graph graph = traced({spec({4}, float64), spec({4})}, [](const auto& in) {
    const NDArray wide = in[1].astype(float64) * 2.0;
    return Arrays{
        in[0] * 0.5 + 0.0,
        wide,
        wide.astype(float32) * 1.0,
        in[1] * 0.5 + in[1],
        (in[1] > 0).astype(float64) * 1e-310 > 0};
  });
  const Arrays given{tiny, small};
  const auto bits = [](const Arrays& arrays) {
    std::vector<std::vector<double>> all;
    for (const NDArray& array : arrays)
      all.push_back((array.dtype() == float64 ? array * 0x1p100 : array.astype(float64)).template to_vector<double>());
    return all;
  };
  Plan plan(graph);
  CHECK(bits(plan.run(given)) == bits(evaluate(graph, given)));
}

TEST_CASE("Who looks at a shape alone does not keep a value from going", "[fusion]") {
  const Graph graph = traced({spec({6, 5})}, [](const auto& in) {
    NDArray x = in[0] * 1.0;
    x.attach_grad();
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(square(tanh(x * 0.5) + 1.0).slice(0, 1, 4));
    }
    loss.backward();
    return Arrays{x.grad()};
  });
  const Graph fused = optimised(graph);
  CHECK(fused.nodes.size() <= graph.nodes.size() / 2 + 2);
  const Arrays given{random_array({6, 5}, 1)};
  CHECK(all_bytes(Plan(graph).run(given)) == all_bytes(Plan(graph, {.optimise = false}).run(given)));
}

TEST_CASE("A fused node says what it computes, and where it was called", "[fusion]") {
  const Graph fused = with_fused_pointwise(
      traced({spec({4}), spec({4})}, [](const auto& in) { return Arrays{clip(in[0] * in[1], 0, 6)}; }));
  const std::string text = to_text(fused), dot = to_dot(fused);
  CAPTURE(text, dot);
  CHECK(text.find("= fused(%0, %1) {t0 = multiply(%0, %1); %3 = clip(t0) {low=0, high=6}}") != std::string::npos);
  CHECK(text.find("test_fusion.cpp:") != std::string::npos);
  CHECK(dot.find("fused: multiply, clip") != std::string::npos);
}
