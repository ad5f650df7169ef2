// Graphs for inputs of other shapes and devices: they compute what the program computes there.
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/engine/expect.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

namespace {

std::vector<ArraySpec> specs_of(const Arrays& arrays) {
  std::vector<ArraySpec> specs;
  for (const NDArray& array : arrays)
    specs.push_back({array.shape(), array.dtype(), array.device()});
  return specs;
}

std::vector<Shape> shapes_of(const Arrays& arrays) {
  std::vector<Shape> shapes;
  for (const NDArray& array : arrays)
    shapes.push_back(array.shape());
  return shapes;
}

template <class Program>
Graph traced(const std::vector<ArraySpec>& specs, const Program& program) {
  Tracer tracer;
  Arrays inputs;
  for (const ArraySpec& spec : specs)
    inputs.push_back(tracer.input(spec));
  return tracer.trace([&] { return program(inputs); });
}

// Draws a program over (n, 6) and (n, 3, 4) whose calls hold for any n. Every value is (n, 6).
Arrays batch_program(unsigned seed, const Arrays& given, const NDArray& weight) {
  std::mt19937 draw(seed);
  std::vector<NDArray> known{given[0], given[1].slice(2, 1, 3).reshape({-1, 6})};
  const std::size_t length = 3 + draw() % 15;
  for (std::size_t i = 0; i < length; ++i) {
    const NDArray &a = known[draw() % known.size()], &b = known[draw() % known.size()];
    switch (draw() % 10) {
      case 0:
        known.push_back(a + b * 0.5);
        break;
      case 1:
        known.push_back(dense(a, weight, NDArray(), {.activation = draw() % 2 ? "relu" : ""}));
        break;
      case 2:
        known.push_back(softmax(a));
        break;
      case 3:
        known.push_back(a - mean(b, {0}, true));
        break;
      case 4:
        known.push_back(a.reshape({-1, 2, 3}).transpose({0, 2, 1}).reshape({-1, 6}) + b);
        break;
      case 5:
        known.push_back(concat({a.slice(1, 0, 2), b.slice(1, 2, 6)}, 1));
        break;
      case 6:
        known.push_back(where(a > b, a, 0.25));
        break;
      case 7:
        known.push_back(a / (sum(abs(b), {1}, true) + 1.0));
        break;
      case 8: {
        NDArray target = a + 0.0;
        target.slice(1, 1, 3).assign(b.slice(1, 3, 5));
        known.push_back(target);
        break;
      }
      default:
        known.push_back(max_pool2d(a.reshape({-1, 1, 2, 3}), {.kernel = {1, 1}}).flatten() * 0.5);
    }
  }
  return {known.back(), known[known.size() / 2]};
}

Arrays batch_inputs(std::int64_t n, Device device) {
  const auto drawn = [&](const Shape& shape, int start) {
    std::vector<float> values(static_cast<std::size_t>(shape.size()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((static_cast<int>(i) + start) * 37 % 101 - 50) / 25.0f;
    return array(values, shape, device);
  };
  return {drawn({n, 6}, 0), drawn({n, 3, 4}, 17)};
}

void check_batches(unsigned programs, Device device) {
  const NDArray weight = batch_inputs(6, device)[0] * 0.25;
  for (unsigned seed = 0; seed < programs; ++seed) {
    CAPTURE(seed);
    const auto program = [&](const Arrays& inputs) { return batch_program(seed, inputs, weight); };
    const Graph graph = traced(specs_of(batch_inputs(4, device)), program);
    for (const std::int64_t n : {1, 3, 4, 9}) {
      CAPTURE(n);
      const Arrays inputs = batch_inputs(n, device);
      const Graph other = with_inputs(graph, specs_of(inputs));
      const std::vector<std::string> wanted = all_bytes(program(inputs));
      CHECK(all_bytes(evaluate(other, inputs)) == wanted);
      CHECK(all_bytes(Plan(other).run(inputs)) == wanted);
      if (n > 1)  // where an extent of 1 is not the batch's
        CHECK(is_same_program(other, with_inputs(traced(specs_of(inputs), program), specs_of(inputs))));
      if (n > 1)
        CHECK(is_same_program(with_extents(graph, shapes_of(inputs)), traced(specs_of(inputs), program)));
      else
        CHECK_THROWS_AS(with_extents(graph, shapes_of(inputs)), ShapeError);
    }
  }
}

}  // namespace

TEST_CASE("A random program's graph for another batch gives what the program gives on that batch", "[graph]") {
  check_batches(200, cpu());
}

TEST_CASE("A random program's graph for another batch does so on a GPU", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_batches(20, gpu(0));
}

TEST_CASE("The graph of a program on a CPU runs on a GPU when it is made for inputs there", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (unsigned seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const RandomProgram program(seed, cpu());
    const Graph graph = traced(specs_of(program.inputs()), [&](const Arrays& inputs) { return program.run(inputs); });
    const RandomProgram there(seed, gpu(0));
    const auto specs = specs_of(there.inputs());
    // An array that the program asks for on the CPU is no operand on a GPU.
    const bool asks = std::any_of(
        graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) { return node.inputs.empty(); });
    if (asks) {
      CHECK_THROWS_AS(with_inputs(graph, specs), DeviceError);
      continue;
    }
    CHECK(all_bytes(evaluate(with_inputs(graph, specs), there.inputs())) == all_bytes(there.run(there.inputs())));
  }
}

TEST_CASE("A graph for its own inputs is the same program, after passes too", "[graph]") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const RandomProgram program(seed, cpu());
    const auto specs = specs_of(program.inputs());
    const Graph graph = traced(specs, [&](const Arrays& inputs) { return program.run(inputs); });
    CHECK(is_same_program(with_inputs(graph, specs), graph));
    const Graph passed = with_inputs(optimised(graph), specs);
    CHECK(all_bytes(Plan(passed).run(program.inputs())) == all_bytes(program.run(program.inputs())));
  }
}

TEST_CASE("Programs differ by operators, attributes, operands, shapes and what they return", "[graph]") {
  const auto of = [](const auto& program, const Shape& shape = {4}) {
    return traced({{.shape = shape}}, [&](const Arrays& x) { return program(x[0]); });
  };
  const auto plain = [](const NDArray& x) { return Arrays{exp(x) + x, x}; };
  const Graph graph = of(plain);
  CHECK(is_same_program(graph, of(plain)));
  CHECK(!is_same_program(graph, of(plain, {5})));
  CHECK(!is_same_program(graph, of([](const NDArray& x) { return Arrays{sin(x) + x, x}; })));
  CHECK(!is_same_program(graph, of([](const NDArray& x) { return Arrays{x + exp(x), x}; })));
  CHECK(!is_same_program(graph, of([](const NDArray& x) { return Arrays{x, exp(x) + x}; })));
  CHECK(!is_same_program(graph, of([](const NDArray& x) { return Arrays{exp(x) + x}; })));
  const Graph two = of([](const NDArray& x) { return Arrays{x + 2.0}; });
  CHECK(!is_same_program(two, of([](const NDArray& x) { return Arrays{x + 3.0}; })));
}

TEST_CASE("Where a program cannot be for other shapes the error names node, operator and line", "[graph]") {
  const Graph graph = traced({{.shape = {4, 6}}}, [](const Arrays& x) { return Arrays{exp(x[0]).reshape({8, 3})}; });
  const std::vector<ArraySpec> five{{.shape = {5, 6}}}, other{{.shape = {4, 6}, .dtype = int32}};
  CHECK_THROWS_AS(with_inputs(graph, five), ShapeError);
  const std::string text = text_of_error([&] { with_inputs(graph, five); });
  CAPTURE(text);
  CHECK(text.find("node 1 (reshape)") != std::string::npos);
  CHECK(text.find("test_respecified.cpp:") != std::string::npos);
  CHECK_THROWS_AS(with_inputs(graph, {}), ValueError);
  const Graph sums = traced({{.shape = {3}}}, [](const Arrays& x) { return Arrays{x[0].slice(0, 0, 2) + x[0][2]}; });
  CHECK_THROWS_AS(with_inputs(sums, std::vector<ArraySpec>{{.shape = {}}}), ShapeError);
  CHECK_NOTHROW(with_inputs(graph, std::vector<ArraySpec>{{.shape = {2, 12}}}));
}

TEST_CASE("With other extents a graph is numbered as it was, and its errors name node, operator and line", "[graph]") {
  const Graph graph = traced({{.shape = {4, 6}}}, [](const Arrays& x) { return Arrays{exp(x[0]).reshape({8, 3})}; });
  const Shape five[] = {{5, 6}}, same[] = {{4, 6}}, wider[] = {{2, 12}}, two[] = {{4, 6}, {4, 6}};
  CHECK(is_same_program(with_extents(graph, same), graph));
  CHECK(with_extents(graph, wider).values[graph.nodes[0].results[0].value].spec.shape == Shape{2, 12});
  const std::string text = text_of_error([&] { with_extents(graph, five); });
  CAPTURE(text);
  CHECK(text.find("node 1 (reshape)") != std::string::npos);
  CHECK(text.find("test_respecified.cpp:") != std::string::npos);
  CHECK_THROWS_AS(with_extents(graph, {}), ValueError);
  CHECK_THROWS_AS(with_extents(graph, two), ValueError);
}

TEST_CASE("Other extents that operators take for something else are refused", "[graph]") {
  const auto graph_of = [](const Shape& shape, const auto& program) {
    return traced({{.shape = shape}}, [&](const Arrays& x) { return Arrays{program(x[0])}; });
  };
  const auto takes = [](const Graph& graph, const Shape& shape) {
    try {
      const Shape shapes[] = {shape};
      (void)with_extents(graph, shapes);
      return true;
    } catch (const ShapeError&) {
      return false;
    }
  };
  const Graph plain = graph_of({4, 3}, [](const NDArray& x) { return exp(x); });
  CHECK(takes(plain, {2, 3}));
  CHECK_FALSE(takes(plain, {1, 3}));
  CHECK_FALSE(takes(plain, {0, 3}));
  CHECK_FALSE(takes(plain, {4, 3, 1}));
  CHECK_FALSE(takes(graph_of({1, 3}, [](const NDArray& x) { return exp(x); }), {4, 3}));
  // One row is left of two, which broadcasting would stretch.
  CHECK_FALSE(takes(graph_of({4, 3}, [](const NDArray& x) { return x.slice(0, 0, 9, 2); }), {2, 3}));
  // Eight columns of nine do not lie row by row; of eight they do, and reshape() looks at that.
  const Graph columns = graph_of({3, 9}, [](const NDArray& x) { return x.slice(1, 0, 8); });
  CHECK(takes(columns, {3, 10}));
  CHECK_FALSE(takes(columns, {3, 8}));
}

TEST_CASE("Inputs that are like values of the graph get their shapes", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input({.shape = {4, 6}});
  const Graph graph = tracer.trace([&] {
    const NDArray y = x.reshape({-1, 3});
    return Arrays{y, tracer.late_input({.shape = {8, 3}}) * y, tracer.late_input({.shape = {4, 6}}) + x};
  });
  const Shape shapes[] = {{5, 6}};
  const graph::ValueId like[] = {graph.outputs[0], graph.inputs[0]};
  const Graph other = with_extents(graph, shapes, like);
  CHECK(other.values[other.inputs[1]].spec.shape == Shape{10, 3});
  CHECK(other.values[other.inputs[2]].spec.shape == Shape{5, 6});
  CHECK_NOTHROW(graph::verify(other));
  const graph::ValueId crossed[] = {graph.inputs[0], graph.outputs[0]};
  CHECK_THROWS_AS(with_extents(graph, shapes, crossed), ShapeError);
}

TEST_CASE("Random numbers of a graph for another batch are those that the program draws there", "[graph]") {
  const auto program = [](const Arrays& x) {
    const autograd::TrainScope train;
    return Arrays{dropout(x[0], 0.5), sluice::random::uniform({3})};
  };
  const Graph graph = traced({{.shape = {4, 6}}}, program);
  const auto drawn = [&](bool by_graph) {
    Engine engine({.seed = 5});
    const EngineScope scope(engine);
    const Arrays x{full({7, 6}, 2.0f)};
    if (!by_graph)
      return all_bytes(program(x));
    const Graph other = with_extents(graph, shapes_of(x));
    CHECK(is_same_program(other, with_inputs(graph, specs_of(x))));
    return all_bytes(Plan(other).run(x));
  };
  CHECK(drawn(true) == drawn(false));
}

TEST_CASE("Constants become inputs, in order, unless the graph writes them", "[graph]") {
  const NDArray weight = array<float>({1, 2, 3, 4}), bias = full({2}, 5.0f), unused = zeros({2});
  const NDArray front = weight.slice(0, 0, 2), back = weight.slice(0, 2, 4);
  const auto program = [&](const Arrays& x) {
    (void)(x[0] + unused);
    return Arrays{x[0] * front + bias, (back * x[0]).reshape({2, 1}), bias, front.reshape({1, 2}) + 1.0};
  };
  const Graph graph = without_dead_code(traced({{.shape = {2}}}, program));
  std::vector<NDArray> constants;
  const Graph open = with_constants_as_inputs(graph, constants);
  verify(open);
  REQUIRE(constants.size() == 3);
  CHECK(constants[0].to_vector<float>() == std::vector<float>{1, 2});
  CHECK(constants[1].to_vector<float>() == std::vector<float>{5, 5});
  CHECK(constants[2].to_vector<float>() == std::vector<float>{3, 4});
  const NDArray x = array<float>({10, 100});
  const Arrays given{x, constants[0], constants[1], constants[2]};
  CHECK(all_bytes(evaluate(open, given)) == all_bytes(program({x})));
  CHECK(all_bytes(Plan(open).run(given)) == all_bytes(program({x})));
  const Graph writes = traced({{.shape = {2}}}, [&](const Arrays& inputs) {
    NDArray sums = bias;
    sums += inputs[0];
    return Arrays{sums};
  });
  CHECK_THROWS_AS(with_constants_as_inputs(writes, constants), UnsupportedError);
}
