// Programs as graphs: what tracing makes, what passes leave, and that plans give what the program gives.
#include <algorithm>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/memory_plan.h>

#include "tests/engine/expect.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;
using graph::ValueId;

namespace {

ArraySpec spec(const Shape& shape, DType dtype = float32, Device device = cpu()) {
  return {shape, dtype, device};
}

std::size_t count(const Graph& graph, const std::string& op) {
  return static_cast<std::size_t>(std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == op; }));
}

Graph traced_chain() {
  Tracer tracer;
  const NDArray x = tracer.input(spec({4, 3}));
  return tracer.trace([&] {
    const NDArray y = exp(x * 2.0);
    return Arrays{y + x, y};
  });
}

}  // namespace

TEST_CASE("Tracing makes a node of each call, and runs none", "[graph]") {
  Engine engine({.seed = 1});
  const EngineScope scope(engine);
  const auto before = engine.counters().pushed;
  const Graph graph = traced_chain();
  CHECK(engine.counters().pushed == before);
  CHECK(graph.inputs.size() == 1);
  CHECK(graph.outputs.size() == 2);
  REQUIRE(graph.nodes.size() == 3);
  CHECK(std::string(graph.nodes[1].op->name) == "exp");
  const std::string text = to_text(graph);
  CHECK(text.find("= exp(%") != std::string::npos);
  CHECK(text.find("test_graph.cpp:") != std::string::npos);
  CHECK(text.find("return %") != std::string::npos);
  const std::string dot = to_dot(graph);
  CHECK(dot.find("digraph") == 0);
  CHECK(std::count(dot.begin(), dot.end(), '>') >= 6);  // an edge each: x twice, its product, exp twice, the sum
}

TEST_CASE("A value that a program looks at while it is traced is an error with its line", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input(spec({2}));
  CHECK_THROWS_AS(tracer.trace([&] { return Arrays{x * sum(x).item<double>()}; }), ValueError);
  const NDArray other = abstract_array(spec({2}));
  CHECK(text_of_error([&] {
          (void)Tracer().trace([&] { return Arrays{exp(other)}; });
        }).find("was made outside") != std::string::npos);
}

TEST_CASE("A plan sees what constants hold when it runs, and writes them", "[graph]") {
  const NDArray weight = full({3}, 2.0f), sums = zeros({3});
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}));
  Plan plan(tracer.trace([&] {
    NDArray total = sums;
    total += x;
    return Arrays{x * weight, total};
  }));
  const NDArray given = array<float>({1, 2, 3});
  CHECK(plan.run({&given, 1})[0].to_vector<float>() == std::vector<float>{2, 4, 6});
  weight.assign(5.0);
  const Arrays second = plan.run({&given, 1});
  CHECK(second[0].to_vector<float>() == std::vector<float>{5, 10, 15});
  CHECK(sums.to_vector<float>() == std::vector<float>{2, 4, 6});
}

TEST_CASE("A plan refuses inputs that are not the graph's", "[graph]") {
  Plan plan(traced_chain());
  const NDArray wide = zeros({4, 4}), whole = zeros({4, 3}, {.dtype = int32}), good = zeros({4, 3});
  const NDArray two[] = {good, good};
  CHECK_THROWS_AS(plan.run({&wide, 1}), ShapeError);
  CHECK_THROWS_AS(plan.run({&whole, 1}), DTypeError);
  CHECK_THROWS_AS(plan.run(two), ValueError);
  CHECK_THROWS_AS(plan.run({}), ValueError);
  const NDArray none;
  CHECK_THROWS_AS(plan.run({&none, 1}), ValueError);
  CHECK(plan.run({&good, 1})[1].to_vector<float>() == std::vector<float>(12, 1.0f));
}

TEST_CASE("Verification finds what cannot be in a graph", "[graph]") {
  const auto refuses = [](const auto& spoil, const std::string& why) {
    Graph graph = traced_chain();
    spoil(graph);
    const std::string text = text_of_error([&] { verify(graph); });
    CAPTURE(text, why);
    CHECK(text.find(why) != std::string::npos);
  };
  refuses([](Graph& graph) { std::swap(graph.nodes[0], graph.nodes[1]); }, "not made yet");
  refuses([](Graph& graph) { graph.nodes[1].inputs[0] = 99; }, "not there");
  refuses([](Graph& graph) { graph.values[graph.nodes[1].results[0].value].spec.shape = {4}; }, "inference says");
  refuses([](Graph& graph) { graph.values[graph.nodes[1].results[0].value].spec.dtype = float64; }, "inference says");
  refuses([](Graph& graph) { graph.nodes[2].results = graph.nodes[1].results; }, "made twice");
  refuses([](Graph& graph) { graph.values[graph.nodes[1].results[0].value].root = graph.inputs[0]; }, "memory");
  refuses([](Graph& graph) { graph.nodes[0].op = nullptr; }, "no operator");
  refuses([](Graph& graph) { graph.outputs.push_back(77); }, "not there");
  refuses([](Graph& graph) { graph.inputs.push_back(graph.inputs[0]); }, "twice");
}

TEST_CASE("Dead code goes, writes that others see stay", "[graph]") {
  const NDArray seen = zeros({3});
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}));
  const Graph whole = tracer.trace([&] {
    (void)exp(x);
    copy_into(sin(x), seen);
    NDArray kept = cos(x);
    kept += x;  // in place: changes what is returned
    const NDArray viewed = tan(x);
    viewed.reshape({3, 1}).assign(2.0);
    return Arrays{kept, viewed};
  });
  const Graph less = without_dead_code(whole);
  CHECK(count(less, "exp") == 0);
  CHECK(count(less, "sin") == 1);
  CHECK(count(less, "add") == 1);
  CHECK(count(less, "tan") == 1);
  CHECK(count(less, "fill") == 1);
  const NDArray given = array<float>({1, 2, 3});
  const Arrays got = Plan(whole).run({&given, 1});
  CHECK(got[1].to_vector<float>() == std::vector<float>(3, 2.0f));
  CHECK(seen.to_vector<float>() == sin(given).to_vector<float>());
  CHECK(got[0].to_vector<float>() == (cos(given) + given).to_vector<float>());
}

TEST_CASE("What is computed twice is computed once, unless memory changes in between", "[graph]") {
  const NDArray counter = zeros({3});
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}));
  const Graph whole = tracer.trace([&] {
    const NDArray before = exp(counter);
    NDArray state = counter;
    state += 1.0;
    const NDArray after = exp(counter);
    const NDArray drawn = sluice::random::uniform({3}) + sluice::random::uniform({3});
    return Arrays{sin(x) + sin(x) * sin(x), before + after, drawn, clip(x, 0, 1) + clip(x, 0, 2)};
  });
  const Graph less = without_repetitions(whole);
  CHECK(count(less, "sin") == 1);
  CHECK(count(less, "exp") == 2);
  CHECK(count(less, "random_uniform") == 2);
  CHECK(count(less, "clip") == 2);
  verify(less);
}

TEST_CASE("Two outputs stay two, whatever is computed twice", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}));
  const Graph whole = tracer.trace([&] {
    const NDArray inside = sin(x), first = sin(x), second = sin(x), seen = cos(x), hidden = cos(x);
    const NDArray sums = softmax(x), more = softmax(x);  // dearer than a copy
    return Arrays{first, second.reshape({3, 1}), inside + 1.0, seen, hidden * 2.0, first, sums, more.reshape({1, 3})};
  });
  const Graph less = without_repetitions(whole);
  CHECK(count(less, "sin") == 2);
  CHECK(count(less, "cos") == 1);
  CHECK(count(less, "softmax") == 1);
  CHECK(count(less, "copy") == 1);
  verify(less);
  CHECK(less.root(less.outputs[0]) != less.root(less.outputs[1]));
  CHECK(less.outputs[0] == less.outputs[5]);
  const NDArray given = array<float>({1, 2, 3});
  const Arrays results = Plan(whole).run({&given, 1});
  results[0].assign(7.0);
  results[6].assign(7.0);
  CHECK(results[7].to_vector<float>() == softmax(given).to_vector<float>());
  CHECK(results[1].to_vector<float>() == sin(given).to_vector<float>());
  CHECK(results[5].to_vector<float>() == std::vector<float>(3, 7.0f));
}

namespace {

void check_gradient(Device device) {
  NDArray variable = array<float>({1, 2, 3}, device);
  variable.attach_grad();
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}, float32, device));
  const Graph whole = tracer.trace([&] {
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(square(variable) * x);
    }
    loss.backward();
    return Arrays{loss.detach()};
  });
  const Graph direct = with_direct_writes(without_dead_code(whole));
  CHECK(count(whole, "copy") == 1);
  CHECK(count(direct, "copy") == 0);
  const NDArray given = array<float>({1, 10, 100}, device);
  Plan plan(whole);
  CHECK(plan.run({&given, 1})[0].to_vector<float>() == std::vector<float>{941});
  CHECK(variable.grad().to_vector<float>() == std::vector<float>{2, 40, 600});
  // A backward by hand in between may put other memory there.
  NDArray loss;
  {
    const autograd::RecordScope record;
    loss = sum(variable * variable * variable);
  }
  loss.backward();
  CHECK(variable.grad().to_vector<float>() == std::vector<float>{3, 12, 27});
  plan.run({&given, 1});
  CHECK(variable.grad().to_vector<float>() == std::vector<float>{2, 40, 600});
}

}  // namespace

TEST_CASE("A gradient is made where it is kept", "[graph]") {
  check_gradient(cpu());
}

TEST_CASE("A gradient on a GPU is made where it is kept, wherever that is by then", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_gradient(gpu(0));
}

TEST_CASE("What is copied to memory is not made there before others have read it", "[graph]") {
  const NDArray kept = array<float>({1, 2, 3});
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}));
  const Graph graph = tracer.trace([&] {
    const NDArray made = x * 2.0;
    const NDArray before = kept + 1.0;
    copy_into(made, kept);
    return Arrays{before};
  });
  Plan plan(graph);
  const NDArray given = array<float>({5, 6, 7});
  CHECK(plan.run({&given, 1})[0].to_vector<float>() == std::vector<float>{2, 3, 4});
  CHECK(plan.run({&given, 1})[0].to_vector<float>() == std::vector<float>{11, 13, 15});
}

TEST_CASE("What is the same at each run is computed once, unless it is written", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}));
  const Graph graph = tracer.trace([&] {
    NDArray sums = full({3}, 1.0);
    const NDArray same = sqrt(full({3}, 16.0));
    sums += x;
    return Arrays{sums, same};
  });
  const std::vector<bool> once = invariant_nodes(graph);
  for (std::size_t at = 0; at < once.size(); ++at) {
    const std::string op = graph.nodes[at].op->name;
    CAPTURE(at, op);
    CHECK(once[at] == (op == "sqrt" || at == 1));
  }
  Plan plan(graph);
  const NDArray given = array<float>({1, 2, 3});
  for (int run = 0; run < 3; ++run) {
    const Arrays got = plan.run({&given, 1});
    CHECK(got[0].to_vector<float>() == std::vector<float>{2, 3, 4});
    CHECK(got[1].to_vector<float>() == std::vector<float>(3, 4.0f));
  }
}

TEST_CASE("Chains that may run side by side share no memory", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input(spec({10, 10})), y = tracer.input(spec({10, 10}));
  const Graph graph = tracer.trace([&] {
    NDArray one = x, other = y;
    for (int i = 0; i < 6; ++i)
      one = softmax(one);
    for (int i = 0; i < 6; ++i)
      other = log_softmax(other);
    return Arrays{one, other};
  });
  const graph::MemoryPlan plan = plan_memory(graph, std::vector<bool>(graph.values.size()));
  std::vector<std::string> user(plan.slots.size());
  for (const graph::Node& node : graph.nodes) {
    std::string& here = user[*plan.slot_of[node.results[0].value]];
    CHECK((here.empty() || here == node.op->name));
    here = node.op->name;
  }
  CHECK(plan.slots.size() <= 4);
}

TEST_CASE("Memory is shared by values that never live together", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input(spec({1000}));
  const Graph graph = tracer.trace([&] {
    NDArray y = x;
    for (int i = 0; i < 20; ++i)
      y = softmax(sin(y) + 1.0);
    return Arrays{y};
  });
  const Plan plan(graph);
  CHECK(plan.memory().bytes_without_sharing >= 20 * 4000);
  CHECK(plan.memory().bytes <= 3 * 4000);
  const Plan apart(graph, {.share_memory = false});
  CHECK(apart.memory().bytes == apart.memory().bytes_without_sharing);
  CHECK(apart.memory().bytes == plan.memory().bytes_without_sharing);
}
