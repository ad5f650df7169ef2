// What graphs, passes, plans and files make of nodes that hold graphs.
#include <atomic>
#include <functional>
#include <thread>

#include <sluice/operator/control/attributes.h>
#include <sluice/operator/graph/detail/replay.h>

#include "tests/engine/expect.h"
#include "tests/operator/control_cases.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;

namespace {

void has(const std::string& found, const std::string& part) {
  INFO(found);
  CHECK(found.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("Two equal branches of one predicate run once, others and dead ones as they should", "[control][graph]") {
  const Program program = [](const Arrays& in) {
    const NDArray predicate = sum(in[0]) > 0;
    (void)chosen(predicate, in[0], 7);
    return Arrays{
        chosen(predicate, in[0], 2)[0],
        chosen(predicate, in[0], 2)[0],
        chosen(predicate, in[0], 3)[0],
        chosen(predicate, in[1], 2)[0]};
  };
  const Graph graph = traced(program, pair(3));
  CHECK(count_nodes(graph, "cond") == 5);
  CHECK(count_nodes(graph::optimised(graph), "cond") == 3);
  check_everywhere(program, pair(3));
}

TEST_CASE("The text and the picture of a graph show what its loops and branches hold", "[control][graph]") {
  const Graph graph = traced(all_kinds(40), pair(3));
  const std::string text = graph::to_text(graph);
  has(text, "= foreach(");
  has(text, "    body: graph(%0: float32 (3,), %1: float32 (3,)");
  has(text, "        then_body: graph(%0: float32 (3,)) on cpu(0) {");
  has(text, "    condition: graph(");
  CHECK(text.find("\\\"") == std::string::npos);
  has(graph::to_dot(graph), "body: ");
}

TEST_CASE(
    "verify() compares a node with the graphs that it holds, which were verified when they were made",
    "[control][graph]") {
  const Graph graph = traced(all_kinds(40), pair(3));
  graph::verify(graph);
  Graph other = graph;
  for (graph::Node& node : other.nodes) {
    if (node.op->name != std::string("foreach"))
      continue;
    control::ForeachAttributes attributes = node.attributes.as<control::ForeachAttributes>();
    attributes.states = 2;
    node.attributes = Attributes::of(attributes);
  }
  CHECK_THROWS_AS(graph::verify(other), Error);
  for (const Operator* op : {&control::k_cond, &control::k_foreach, &control::k_while_loop}) {
    const NDArray x = full({2}, 1.f);
    CHECK_THROWS_AS(invoke(*op, {&x, 1}, make_attributes(*op, {}), SourceLocation::current()), ValueError);
  }
  Graph random;
  random.values = {{.source = graph::Source::random, .spec = {{2}, int64, cpu()}, .counters = 3}};
  CHECK_THROWS_AS(control::Subgraph(random), UnsupportedError);
  Graph wrong = traced([](const Arrays& in) { return Arrays{in[0] * in[1]}; }, pair(3));
  wrong.values[wrong.outputs[0]].spec.shape = {4};
  CHECK_THROWS_AS(control::Subgraph(wrong), ValueError);
}

TEST_CASE("Loops and branches serve inputs of other shapes and types", "[control][graph]") {
  const Graph graph = traced(all_kinds(40), pair(3));
  for (const DType dtype : {float32, float64}) {
    const Graph other = graph::with_inputs(
        traced([](const Arrays& in) { return chosen(sum(in[0]) > 0, in[0], 2); }, pair(3)),
        std::vector<ArraySpec>{{{5}, dtype, cpu()}, {{3}, float32, cpu()}});
    const NDArray x = numbers_of(4, {5}, dtype);
    CHECK(all_bytes(graph::evaluate(other, Arrays{x, zeros({3})})) == all_bytes(chosen(sum(x) > 0, x, 2)));
  }
  // What stands in an attribute stays.
  CHECK_THROWS_AS(
      graph::with_inputs(graph, std::vector<ArraySpec>{{{5}, float32, cpu()}, {{5}, float32, cpu()}}), ShapeError);
  const Program open = [](const Arrays& in) {
    const LoopResult r = foreach(
        [](const Arrays& d, const Arrays& s) -> LoopResult {
          return {{d[0] * s[0]}, {s[0] + d[0]}};
        },
        {in[0]},
        {in[1]});
    return Arrays{r.outputs[0], r.states[0]};
  };
  const Graph looped = traced(open, {zeros({40, 3}), zeros({3})});
  const Arrays longer{numbers_of(5, {60, 7}), numbers_of(6, {7})};
  const Graph other =
      graph::with_inputs(looped, std::vector<ArraySpec>{{{60, 7}, float32, cpu()}, {{7}, float32, cpu()}});
  CHECK(all_bytes(graph::Plan(other).run(longer)) == all_bytes(open(longer)));
}

TEST_CASE("Graph files hold the graphs of nodes", "[control][graph]") {
  const Arrays inputs = pair(3);
  const Graph graph = graph::without_dead_code(traced(all_kinds(40), inputs));
  const std::string text = graph::to_json(file_of(graph));
  has(text, "\"version\": 2");
  has(text, "\"body\": {\"graph\": {\"inputs\": [{\"value\": 0, \"shape\": [3]");
  const graph::GraphFile read = graph::from_json(text, "loops.json");
  CHECK(all_bytes(graph::Plan(read.graph).run(inputs)) == all_bytes(all_kinds(40)(inputs)));
  CHECK(graph::to_json(read).size() == Approx(static_cast<double>(text.size())).epsilon(0.5));
  // Gradients of what was read: it was traced without a tape.
  const Program again = [&](const Arrays& in) { return graph::evaluate(read.graph, in); };
  CHECK(are_near(with_gradients(again, inputs), with_gradients(all_kinds(40), inputs), 1e-5));
  has(graph::to_json(file_of(traced([](const Arrays& in) { return Arrays{in[0] + 1}; }, {inputs[0]}))),
      "\"version\": 1");
}

TEST_CASE("Graph files hold branches within branches, to a depth that is said", "[control][graph]") {
  const std::function<NDArray(const NDArray&, int)> nested = [&](const NDArray& x, int depth) -> NDArray {
    if (depth == 0)
      return x * 2.0;
    return cond(
        sum(x) > 0,
        [&](const Arrays& in) { return Arrays{nested(in[0] - 1.0, depth - 1)}; },
        [](const Arrays& in) { return Arrays{in[0]}; },
        {x})[0];
  };
  const Graph graph = traced([&](const Arrays& in) { return Arrays{nested(in[0], 8)}; }, pair(3));
  const graph::GraphFile read = graph::from_json(graph::to_json(file_of(graph)), "deep.json");
  for (const float start : {9.0f, 3.5f, -1.0f}) {
    const Arrays inputs{array({start}), array({0.0f})};
    CHECK(all_bytes(graph::replay(read.graph, inputs)) == all_bytes(Arrays{nested(inputs[0], 8)}));
  }
  has(text_of_error([&] { (void)graph::from_json(std::string(300, '['), "deep.json"); }),
      "deep.json: it nests values deeper than 256 levels");
}

TEST_CASE("Damaged graphs of nodes are refused with their place", "[control][graph]") {
  const std::string text = graph::to_json(file_of(graph::without_dead_code(traced(all_kinds(40), pair(3)))));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    const std::size_t sum = changed.find("\"checksum\": \"") + 13;
    changed.replace(sum, 8, graph::checksum_text(graph::text_checksum(changed)));
    return text_of_error([&] { (void)graph::from_json(changed, "loops.json"); });
  };
  has(with("{\"graph\": {\"inputs\": [{\"value\": 0", "{\"graph\": {\"inputs\": [{\"value\": 1"),
      "attributes.body.graph.inputs[0].value: is not 0");
  has(with(
          "\"then_body\": {\"graph\": {\"inputs\": [{\"value\": 0, \"shape\": [3]",
          "\"then_body\": {\"graph\": {\"inputs\": [{\"value\": 0, \"shape\": [4]"),
      "loops.json: nodes[");
  has(with("\"op\": \"cond\"", "\"op\": \"concat\""), "loops.json: nodes[");
  has(with("\"op\": \"cond\"", "\"op\": \"nothing\""), "this program has no operator 'nothing'");
  has(with("\"states\": 1", "\"states\": -1"), "loops.json");
  has(with("\"states\": 1", "\"states\": 99"), "loops.json");
}

TEST_CASE("What cannot be a body of a graph is refused by name, or unrolled", "[control][graph]") {
  const NDArray x = numbers_of(1, {3}), counter = zeros({3});
  const auto looped = [&](const LoopBody& body) {
    return text_of_error([&] {
      (void)traced(
          [&](const Arrays& in) {
            return while_loop([](const Arrays& v) { return sum(v[0]) < 1; }, body, {in[0]}, 3).states;
          },
          {x});
    });
  };
  has(looped([](const Arrays& v) -> LoopResult {
        return {{}, {v[0] + random::uniform({3})}};
      }),
      "while_loop: the body draws random numbers");
  has(looped([&](const Arrays& v) -> LoopResult {
        copy_into(v[0], counter);
        return {{}, {v[0] + 1}};
      }),
      "while_loop: the body writes arrays in place that are there before");
  has(looped([](const Arrays& v) -> LoopResult {
        return {{}, {v[0].astype(float64)}};
      }),
      "state 0 of turn 0 is float64");
  has(looped([](const Arrays& v) -> LoopResult { return {{}, {v[0] * v[0].slice(0, 0, 1).item<float>()}}; }), "item");
  const auto branched = [&](const Branch& second) {
    return text_of_error([&] {
      (void)traced(
          [&](const Arrays& in) { return cond(sum(in[0]) > 0, [](const Arrays& a) { return a; }, second, {in[0]}); },
          {x});
    });
  };
  has(branched([](const Arrays&) { return Arrays{}; }), "cond: the first body gives 1 arrays, the second 0");
  has(branched([](const Arrays& a) { return Arrays{a[0].slice(0, 0, 2)}; }),
      "result 0 of the second body has shape (2,)");
  has(branched([](const Arrays& a) { return Arrays{a[0].astype(int32)}; }), "is int32, not float32");
  has(branched([](const Arrays& a) { return Arrays{matmul(a[0], zeros({2, 2}))}; }), "matmul");

  // Numbers drawn in turns are those that would be drawn by hand.
  const Program drawing = [](const Arrays& in) {
    const LoopResult r = foreach(
        [](const Arrays& d, const Arrays& s) -> LoopResult {
          return {{d[0] * random::uniform({2})}, {s[0] + random::normal(0, 1, {2})}};
        },
        {in[0]},
        {zeros({2})});
    return Arrays{r.outputs[0], r.states[0]};
  };
  const auto run = [&](bool planned) {
    Engine engine({.seed = 9});
    const EngineScope scope(engine);
    const Arrays inputs{numbers_of(3, {40, 2})};
    return all_bytes(planned ? graph::Plan(traced(drawing, inputs)).run(inputs) : drawing(inputs));
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("An error in the middle of a planned loop leaves the plan as it was", "[control][graph]") {
  const Program program = [](const Arrays& in) {
    const LoopResult r = while_loop(
        [&](const Arrays& v) { return take(in[1], v[0]) > 0; },
        [](const Arrays& v) -> LoopResult {
          return {{v[0] * 2}, {v[0] + 1}};
        },
        {in[0]},
        6);
    return Arrays{r.outputs[0], r.states[0]};
  };
  const Arrays bad{zeros({1}, {.dtype = int64}), ones({3})};  // turn 3 looks behind the end
  const Arrays good{zeros({1}, {.dtype = int64}), array({1.f, 1.f, 0.f})};
  graph::Plan plan(traced(program, good));
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(plan.run(bad), IndexError);
    try {
      (void)plan.run(bad);
    } catch (const IndexError&) {
      CHECK_THROWS_AS(plan.run(bad), IndexError);  // while the first is being handled
      CHECK(all_bytes(plan.run(good)) == all_bytes(program(good)));
    }
  }
}

TEST_CASE(
    "Plans with loops and branches are run by many threads, on several engines and without workers",
    "[control][graph]") {
  const Arrays shapes = pair(3);
  const Graph graph = traced(all_kinds(40), shapes);
  const auto run_on = [&](const EngineOptions& options) {
    Engine engine(options);
    const EngineScope scope(engine);
    const Arrays inputs = pair(3);
    const auto expected = all_bytes(all_kinds(40)(inputs));
    graph::Plan plan(graph);
    std::atomic<int> same = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        const EngineScope here(engine);
        for (int run = 0; run < 5; ++run)
          same += all_bytes(plan.run(inputs)) == expected;
      });
    for (std::thread& thread : threads)
      thread.join();
    return same.load();
  };
  CHECK(run_on({.workers = 2}) == 20);
  CHECK(run_on({.cpu_policy = CpuMode::serial}) == 20);
  CHECK(run_on({.workers = 1}) == 20);
}

TEST_CASE("A graph planned on two engines runs its bodies on each", "[control][graph]") {
  Engine one({.workers = 1}), other({.workers = 1});
  const Graph graph = traced(all_kinds(40), pair(3));
  graph::Plan first(graph, {}, one), second(graph, {}, other);
  const auto inputs_on = [](Engine& engine) {
    const EngineScope scope(engine);
    return pair(3);
  };
  const Arrays here = inputs_on(one), there = inputs_on(other);
  const auto expected = all_bytes(first.run(here));
  one.wait_all();
  const auto before = one.counters().pushed;
  CHECK(all_bytes(second.run(there)) == expected);
  CHECK(one.counters().pushed == before);
}

TEST_CASE("A loop that writes where it reads gives what it would give elsewhere", "[control][graph]") {
  const Graph graph = graph::without_dead_code(traced(
      [](const Arrays& in) {
        const LoopResult r = foreach(
            [](const Arrays& d, const Arrays& s) -> LoopResult {
              return {{d[0] + s[0]}, {d[0]}};
            },
            {in[0]},
            {in[1]});
        return Arrays{r.outputs[0], r.states[0]};
      },
      {zeros({40, 3}), zeros({3})}));
  REQUIRE(graph.nodes.size() == 1);
  const Arrays inputs{numbers_of(1, {40, 3}), numbers_of(2, {3})};
  const Arrays expected = graph::evaluate(graph, inputs);
  const Arrays copies{inputs[0].copy(), inputs[1].copy()};
  const graph::Node& node = graph.nodes[0];
  invoke(*node.op, copies, node.attributes, SourceLocation::current(), copies);
  CHECK(all_bytes(copies) == all_bytes(expected));
}
