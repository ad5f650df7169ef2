// What graphs, passes, plans and files make of nodes that hold graphs.
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

Arrays chosen(const NDArray& predicate, const NDArray& x, double factor) {
  return cond(
      predicate,
      [=](const Arrays& a) { return Arrays{a[0] * factor}; },
      [](const Arrays& a) { return Arrays{a[0] - 1}; },
      {x});
}

// A loop of so many turns, a counted one and a branch in it.
Program all_kinds(std::int64_t turns) {
  return [=](const Arrays& in) {
    const LoopResult r = foreach(
        [&](const Arrays& d, const Arrays& s) -> LoopResult {
          return {{chosen(sum(d[0]) > 0, s[0], 0.5)[0]}, {s[0] + d[0] * in[1]}};
        },
        {in[0].broadcast_to({turns, in[0].shape()[0]})},
        {in[1]});
    const LoopResult w = while_loop(
        [](const Arrays& v) { return v[1] < 3; },
        [](const Arrays& v) -> LoopResult {
          return {{v[0]}, {v[0] * 2, v[1] + 1}};
        },
        {r.states[0], zeros({}, {.dtype = int32, .device = in[0].device()})},
        4);
    return Arrays{r.outputs[0], w.outputs[0], w.states[0], w.states[1]};
  };
}

Arrays pair(std::int64_t n, Device device = cpu()) {
  return {numbers_of(1, {n}, float32, device), numbers_of(2, {n}, float32, device)};
}

graph::GraphFile file_of(const Graph& graph) {
  graph::GraphFile file{.graph = graph};
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    file.inputs.push_back({message("x", i), false});
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    file.outputs.push_back(message("y", i));
  return file;
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

TEST_CASE("verify() looks into the graphs of nodes", "[control][graph]") {
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
