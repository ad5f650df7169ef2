// How many operations a graph does, against counts by hand.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/fused/fused.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using graph::Graph;
using graph::Tracer;

namespace {

std::vector<ArraySpec> floats(const std::vector<Shape>& shapes) {
  std::vector<ArraySpec> specs;
  for (const Shape& shape : shapes)
    specs.push_back({shape, float32, cpu()});
  return specs;
}

Graph traced(const std::vector<Shape>& shapes, const std::function<NDArray(const Arrays&)>& program) {
  Tracer tracer;
  Arrays inputs;
  for (const ArraySpec& spec : floats(shapes))
    inputs.push_back(tracer.input(spec));
  return tracer.trace([&] { return Arrays{program(inputs)}; });
}

std::int64_t counted(const std::vector<Shape>& shapes, const std::function<NDArray(const Arrays&)>& program) {
  return flops(traced(shapes, program));
}

// Of the gradients of all inputs alone, for a head that is given.
std::int64_t backward(const std::vector<Shape>& shapes, const std::function<NDArray(const Arrays&)>& program) {
  Tracer tracer;
  Arrays inputs;
  for (const ArraySpec& spec : floats(shapes))
    inputs.push_back(tracer.input(spec));
  std::size_t forward = 0;
  const Graph graph = tracer.trace([&] {
    for (NDArray& input : inputs)
      input.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = program(inputs);
    }
    forward = tracer.size();
    const NDArray head = tracer.late_input({y.shape(), y.dtype(), y.device()});
    const auto gradients = autograd::grad({&y, 1}, inputs, {&head, 1});
    return Arrays(gradients.begin(), gradients.end());
  });
  std::int64_t count = 0;
  for (std::size_t at = forward; at < graph.nodes.size(); ++at)
    count += flops(graph.nodes[at], graph);
  return count;
}

}  // namespace

TEST_CASE("A product does two operations for each pair of factors", "[graph][flops]") {
  const auto product = [](const Arrays& x) { return matmul(x[0], x[1]); };
  CHECK(counted({{3, 5}, {5, 7}}, product) == 2 * 3 * 5 * 7);
  CHECK(counted({{2, 4, 3, 5}, {4, 5, 7}}, product) == 2 * (2 * 4) * 3 * 5 * 7);
  CHECK(counted({{5}, {5, 7}}, product) == 2 * 5 * 7);
  CHECK(counted({{3, 5}, {5}}, product) == 2 * 3 * 5);
  CHECK(counted({{5}, {5}}, product) == 2 * 5);
  CHECK(counted({{0, 5}, {5, 7}}, product) == 0);
  CHECK(counted({{3, 0}, {0, 7}}, product) == 0);
  CHECK(backward({{3, 5}, {5, 7}}, product) == 2 * (2 * 3 * 5 * 7));  // among them one of a transposed operand
}

TEST_CASE(
    "A dense layer does its products, its bias and its relu; backward does the products twice", "[graph][flops]") {
  const std::int64_t n = 6, in = 4 * 5, units = 3, products = 2 * n * in * units;
  const auto layer = [](const Arrays& x, const char* activation) {
    return dense(x[0], x[1], x.size() > 2 ? x[2] : NDArray(), {.activation = activation});
  };
  const auto plain = [&](const Arrays& x) { return layer(x, ""); };
  const auto with_relu = [&](const Arrays& x) { return layer(x, "relu"); };
  CHECK(counted({{n, 4, 5}, {units, in}}, plain) == products);
  CHECK(counted({{n, 4, 5}, {units, in}, {units}}, plain) == products + n * units);
  CHECK(counted({{n, 4, 5}, {units, in}, {units}}, with_relu) == products + 2 * n * units);
  CHECK(backward({{n, 4, 5}, {units, in}}, plain) == 2 * products);
  CHECK(backward({{n, 4, 5}, {units, in}, {units}}, plain) == 2 * products + n * units);
  CHECK(backward({{n, 4, 5}, {units, in}, {units}}, with_relu) == 2 * products + 2 * n * units);
}

TEST_CASE("A convolution sums a filter for each element of its result", "[graph][flops]") {
  // (2, 6, 9, 8) with 4 filters in 2 groups, 3 x 2, stride (2, 1), pad (1, 0): (2, 4, 5, 7).
  const std::int64_t result = 2 * 4 * 5 * 7, filter = (6 / 2) * 3 * 2;
  const auto layer = [](const Arrays& x, const char* activation) {
    return convolution(
        x[0],
        x[1],
        x.size() > 2 ? x[2] : NDArray(),
        {.stride = {2, 1}, .pad = {1, 0}, .groups = 2, .activation = activation});
  };
  const auto plain = [&](const Arrays& x) { return layer(x, ""); };
  const auto with_relu = [&](const Arrays& x) { return layer(x, "relu"); };
  const std::vector<Shape> unbiased{{2, 6, 9, 8}, {4, 3, 3, 2}}, biased{{2, 6, 9, 8}, {4, 3, 3, 2}, {4}};
  CHECK(counted(unbiased, plain) == 2 * result * filter);
  CHECK(counted(biased, plain) == 2 * result * filter + result);
  CHECK(counted(biased, with_relu) == 2 * result * filter + 2 * result);
  const auto fused = [&](const Arrays& x) {
    return convolution_fused(
        x[0], x[1], {.shift = x[2]}, {.stride = {2, 1}, .pad = {1, 0}, .groups = 2, .activation = "relu"});
  };
  CHECK(counted(biased, fused) == 2 * result * filter + 2 * result);
  CHECK(backward(unbiased, plain) == 2 * (2 * result * filter));
  CHECK(backward(biased, plain) == 2 * (2 * result * filter) + result);
  CHECK(backward(biased, with_relu) == 2 * (2 * result * filter) + 2 * result);
}

TEST_CASE("Fused attention does what its products and its softmax do", "[graph][flops][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::int64_t scores = 2 * 4 * 3 * 5;
  const auto call = [](const Arrays& x) {
    Arrays halves;
    for (const NDArray& each : x)
      halves.push_back(each.astype(bfloat16));
    const Operator& op = *find_operator("attention_fused");
    return invoke(op, halves, parse_attributes(op, ""), SourceLocation::current())[0];
  };
  const auto one = [&](const std::vector<Shape>& shapes, const char* name) {
    Tracer tracer;
    Arrays inputs;
    for (const Shape& shape : shapes) {
      inputs.push_back(tracer.input({shape, float32, gpu()}));
      inputs.back().attach_grad();
    }
    const Graph made = tracer.trace([&] {
      const autograd::RecordScope record;
      const NDArray y = call(inputs);
      const NDArray head = tracer.late_input({y.shape(), y.dtype(), y.device()});
      const autograd::PauseScope pause;
      const auto gradients = autograd::grad({&y, 1}, {&inputs[0], 1}, {&head, 1});
      return Arrays(gradients.begin(), gradients.end());
    });
    std::int64_t count = -1;
    for (const graph::Node& node : made.nodes)
      count = node.op->name == std::string(name) ? flops(node, made) : count;
    return count;
  };
  const Shape q{2, 4, 3, 8}, k{2, 2, 5, 8}, v{2, 2, 5, 16};
  CHECK(one({q, k, v}, "attention_fused") == scores * (2 * 8 + 1 + 5 + 2 * 16));
  CHECK(one({q, k, v, {1, 1, 3, 5}}, "attention_fused") == scores * (2 * 8 + 2 + 5 + 2 * 16));
  CHECK(one({q, k, v}, "attention_fused_backward") > 2 * one({q, k, v}, "attention_fused"));
}

TEST_CASE("Pooling looks at each element of its windows", "[graph][flops]") {
  const std::vector<Shape> images{{2, 3, 8, 6}};
  CHECK(counted(images, [](const Arrays& x) { return max_pool2d(x[0], {.kernel = {2, 3}}); }) == 2 * 3 * 4 * 2 * 6);
  CHECK(counted(images, [](const Arrays& x) { return avg_pool2d(x[0], {.kernel = {2, 2}}); }) == 2 * 3 * 4 * 3 * 4);
  CHECK(counted(images, [](const Arrays& x) { return avg_pool2d(x[0], {.global = true}); }) == 2 * 3 * 8 * 6);
  CHECK(backward(images, [](const Arrays& x) { return max_pool2d(x[0], {.kernel = {2, 2}}); }) == 2 * 3 * 4 * 3);
  CHECK(backward(images, [](const Arrays& x) { return avg_pool2d(x[0], {.kernel = {2, 2}}); }) == 2 * 3 * 4 * 3 * 4);
}

TEST_CASE("Elementwise is one an element of the result, reductions one an element read, views none", "[graph][flops]") {
  CHECK(counted({{4, 1}, {1, 5}}, [](const Arrays& x) { return x[0] + x[1]; }) == 20);
  CHECK(counted({{4, 5}}, [](const Arrays& x) { return gelu(x[0] * 2.0); }) == 2 * 20);
  CHECK(backward({{4, 5}}, [](const Arrays& x) { return tanh(x[0]); }) == 20);
  CHECK(counted({{4, 5}}, [](const Arrays& x) { return sum(x[0], {0}); }) == 20);
  CHECK(counted({{4, 5}}, [](const Arrays& x) { return argmax(x[0], 1); }) == 20);
  CHECK(counted({{4, 5}}, [](const Arrays& x) { return variance(x[0], {0}); }) == 4 * 20);
  CHECK(counted({{4, 5}}, [](const Arrays& x) { return l2_norm(x[0]); }) == 2 * 20);
  CHECK(counted({{4, 5}}, [](const Arrays& x) { return log_softmax(x[0]); }) == 5 * 20);
  CHECK(counted({{4, 5}}, [](const Arrays& x) { return x[0].reshape({2, 10}).T().copy(); }) == 0);
  CHECK(counted({{4, 5}}, [](const Arrays& x) { return concat({x[0], x[0]}).astype(float64); }) == 0);
}

TEST_CASE("An update counts its formula for each weight", "[graph][flops]") {
  const auto with = [](std::size_t lists, const auto& update) {
    Tracer tracer;
    std::vector<std::vector<NDArray>> arrays(lists);
    for (std::vector<NDArray>& list : arrays) {
      list.push_back(tracer.input({{3, 4}, float32, cpu()}));
      list.push_back(tracer.input({{5}, float32, cpu()}));
    }
    return flops(tracer.trace([&] {
      update(arrays);
      return Arrays{};
    }));
  };
  CHECK(with(2, [](const auto& of) { sgd_update(of[0], of[1], {}, {}); }) == 5 * 17);
  CHECK(with(3, [](const auto& of) { sgd_update(of[0], of[1], of[2], {.momentum = 0.9}); }) == 7 * 17);
  CHECK(with(4, [](const auto& of) { adam_update(of[0], of[1], of[2], of[3], {.steps = {1, 1}}); }) == 15 * 17);
  const auto nag = [](const auto& of, std::size_t states, UpdateOptions options) {
    optimizer_update(update_rules::Nag{states * 0.9}, of[0], of[1], std::span(of).subspan(2, states), options);
  };
  CHECK(with(3, [&](const auto& of) { nag(of, 1, {}); }) == 9 * 17);
  CHECK(with(2, [&](const auto& of) { nag(of, 0, {}); }) == 7 * 17);
  // What stands behind the lists is no weight.
  const NDArray numbers = zeros({3}, {.dtype = float64});
  CHECK(with(3, [&](const auto& of) { nag(of, 1, {.numbers = numbers, .guard = numbers}); }) == 9 * 17);
}

TEST_CASE("A convolution's weights that mask a relu's gradient along count that too", "[graph][flops]") {
  const std::int64_t result = 2 * 4 * 5 * 7, filter = 3 * 3 * 2;
  for (const bool bias : {false, true}) {
    const auto attributes =
        Attributes::of(detail::ConvolutionAttributes{.stride = {2, 1}, .pad = {1, 0}, .bias = bias});
    const Graph graph = traced({{2, 3, 9, 8}, {2, 4, 5, 7}, {2, 4, 5, 7}, {4, 3, 3, 2}}, [&](const Arrays& x) {
      const Operator& op = *find_operator("convolution_relu_backward_weights");
      return invoke(op, x, attributes, SourceLocation::current())[0];
    });
    CHECK(flops(graph) == 2 * result * filter + (bias ? 2 : 1) * result);
  }
}

TEST_CASE("A fused node counts each of its calls but casts, an element", "[graph][flops]") {
  const Graph graph = with_fused_pointwise(
      traced({{4, 1}, {4, 5}}, [](const Arrays& x) { return relu(x[0] * x[1] + 1.0).astype(float16); }));
  REQUIRE(graph.nodes.size() == 1);
  REQUIRE(graph.nodes[0].op == &fused::k_fused);
  CHECK(flops(graph) == 3 * 20);
}

TEST_CASE("Passes that join calls leave the count of what they join", "[graph][flops]") {
  Tracer tracer;
  const NDArray x = tracer.input({{6, 7}, float32, cpu()}), labels = tracer.input({{6}, int32, cpu()});
  NDArray first = full({5, 7}, 0.5f), second = full({3, 5}, 0.5f);
  first.attach_grad();
  second.attach_grad();
  const Graph graph = tracer.trace([&] {
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = softmax_cross_entropy(dense(tanh(dense(x, first, {}, {.activation = "relu"})) * 2.0, second, {}), labels);
    }
    loss.backward();
    return Arrays{loss};
  });
  const Graph combined = with_combined_calls(graph), fused = with_fused_pointwise(combined);
  CHECK(combined.nodes.size() < graph.nodes.size());
  CHECK(fused.nodes.size() < combined.nodes.size());
  CHECK(flops(combined) == flops(graph));
  CHECK(flops(fused) == flops(graph));
}

TEST_CASE("A product through a relu's gradient counts what the two counted", "[graph][flops]") {
  const Graph graph = traced({{6, 7}, {7, 5}, {6, 5}}, [](const Arrays& x) {
    const NDArray product = matmul(x[0], x[1]);
    return detail::relu_gradient(product, x[2], {});
  });
  const Graph combined = with_combined_calls(graph);
  REQUIRE(combined.nodes.size() == 1);
  CHECK(flops(combined) == 6 * 5 * (2 * 7 + 1));
  CHECK(flops(combined) == flops(graph));
}

TEST_CASE(
    "Loops count their bodies for each turn that there may be, cond the branch that does more", "[graph][flops]") {
  const auto scan = [](const Arrays& x) {
    const auto body = [&](const Arrays& data, const Arrays& states) -> LoopResult {
      const NDArray next = tanh(matmul(states[0], x[1]) + data[0]);
      return {{next}, {next}};
    };
    return foreach(body, {x[0]}, {x[2]}).states[0];
  };
  CHECK(counted({{40, 2, 3}, {3, 3}, {2, 3}}, scan) == 40 * (2 * 2 * 3 * 3 + 2 * 2 * 3));
  const auto halve = [](const Arrays& x) {
    const auto is_large = [](const Arrays& vars) { return sum(vars[0]) > 1.0; };
    const auto body = [](const Arrays& vars) -> LoopResult { return {{}, {vars[0] * 0.5}}; };
    return while_loop(is_large, body, {x[0]}, 50).states[0];
  };
  CHECK(counted({{7}}, halve) == 50 * (7 + 1 + 7));
  const auto choose = [](const Arrays& x) {
    const auto less = [](const Arrays& in) { return Arrays{in[0] * 2.0}; };
    const auto more = [](const Arrays& in) { return Arrays{tanh(in[0]) + 1.0}; };
    return cond(x[1], less, more, {x[0]})[0];
  };
  CHECK(counted({{7}, {1}}, choose) == 14);
}

TEST_CASE("A bias' gradient beside that of its weight counts what the two counted together", "[graph][flops]") {
  const Graph graph = traced({{6, 5}}, [](const Arrays& x) {
    return invoke(*find_operator("dense_backward_bias"), x, {}, SourceLocation::current())[0];
  });
  CHECK(flops(graph) == 6 * 5);
}

TEST_CASE("Every node of random programs has a count, and the graph their sum", "[graph][flops]") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const test::RandomProgram program(seed, cpu());
    Tracer tracer;
    Arrays inputs;
    for (const NDArray& input : program.inputs())
      inputs.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
    const Graph graph = tracer.trace([&] { return program.run(inputs); });
    std::int64_t sum = 0;
    for (const graph::Node& node : graph.nodes) {
      const std::int64_t count = flops(node, graph);
      INFO(node.op->name);
      CHECK(count >= 0);
      CHECK((!node.op->elementwise || count == graph.values[node.results[0].value].spec.shape.size()));
      sum += count;
    }
    CHECK(flops(graph) == sum);
  }
}
