// Gradients of activations that add up the gradient of a bias: the kernel beside the two that it stands for, and the
// pass that makes one call of both.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/flops.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

const char* const k_activations[] = {"gelu", "gelu_tanh", "silu"};

Arrays called(const std::string& name, const Arrays& inputs) {
  return invoke(*find_operator(name), inputs, {}, SourceLocation::current());
}

/// Both gradients by the calls of each.
Arrays in_two(const std::string& activation, const NDArray& dy, const NDArray& x) {
  const NDArray dx = called(activation + "_backward", {dy, x, dy})[0];
  const std::int64_t units = x.shape()[x.shape().ndim() - 1];
  const std::int64_t rows = units == 0 ? 0 : x.shape().size() / units;
  return {dx, called("dense_backward_bias", {dx.reshape({rows, units})})[0]};
}

void check_both(const NDArray& dy, const NDArray& x) {
  for (const std::string activation : k_activations) {
    CAPTURE(activation, x.dtype(), x.shape());
    const auto wanted = all_bytes(in_two(activation, dy, x), true);
    CHECK((all_bytes(called(activation + "_backward_bias", {dy, x}), true) == wanted));
    if (!dy.is_contiguous() || !x.is_contiguous())
      continue;
    for (const bool over_x : {false, true}) {
      const Arrays given{dy.copy(), x.copy()};
      const Arrays to{
          given[over_x ? 1 : 0], zeros({x.shape()[x.ndim() - 1]}, {.dtype = x.dtype(), .device = x.device()})};
      invoke(*find_operator(activation + "_backward_bias"), given, {}, SourceLocation::current(), to);
      CHECK((all_bytes(to, true) == wanted));
    }
  }
}

std::int64_t count(const Graph& graph, const std::string& op) {
  return std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == op; });
}

using Activation = std::function<NDArray(const NDArray&)>;
NDArray by_tanh(const NDArray& x) {
  return gelu_tanh(x);
}

/// x, the weights and biases of two layers.
Arrays draw_layers(const Shape& x, std::int64_t units, DType dtype, Device device) {
  const std::int64_t width = x[x.ndim() - 1];
  return {
      random_array(x, 1, -2, 2, dtype, device),
      random_array({units, width}, 2, -0.2, 0.2, dtype, device),
      random_array({units}, 3, -1, 1, dtype, device),
      random_array({8, units}, 4, -0.2, 0.2, dtype, device)};
}

/// The gradients of two layers with an activation between them, with respect to all that is given.
Arrays layers(const Arrays& given, const Activation& activation) {
  Arrays in;
  for (const NDArray& each : given) {
    in.push_back(each.detach());
    in.back().attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    const DenseOptions options{.flatten = false};
    y = dense(activation(dense(in[0], in[1], in[2], options)), in[3], {}, options);
  }
  Arrays made;
  for (const NDArray& gradient : autograd::grad({&y, 1}, in, {}))
    made.push_back(gradient);
  return made;
}

Graph traced(const Arrays& like, const std::function<Arrays(const Arrays&)>& f) {
  Tracer tracer;
  Arrays inputs;
  for (const NDArray& each : like)
    inputs.push_back(tracer.input({each.shape(), each.dtype(), each.device()}));
  return tracer.trace([&] { return f(inputs); });
}

std::int64_t joined(const Graph& graph, const std::string& activation = "gelu_tanh") {
  const Graph made = with_bias_sums(with_biases_apart(without_dead_code(graph)));
  verify(made);
  return count(made, activation + "_backward_bias");
}

}  // namespace

TEST_CASE("A gradient and its sum by one kernel are those by two, whatever the rows", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {bfloat16, float32}) {
    for (const std::int64_t units : {8, 24, 256, 264, 2304}) {
      for (const std::int64_t rows : {1, 31, 129, 1000})
        check_both(
            random_array({rows, units}, 1, -2, 2, dtype, gpu()), random_array({rows, units}, 2, -5, 5, dtype, gpu()));
    }
  }
  // Many rows of a few: blocks take several rounds, whole ones and parts of one.
  for (const std::int64_t rows : {70000, 66049, 131111})
    check_both(random_array({rows, 8}, 1, -2, 2, float16, gpu()), random_array({rows, 8}, 2, -5, 5, float16, gpu()));
}

TEST_CASE("A gradient with its sum takes other types, layouts and nothing at all", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {bfloat16, float16, float32, float64}) {
    const auto draw = [&](const Shape& shape, std::uint64_t seed) {
      return random_array(shape, seed, -3, 3, dtype, gpu());
    };
    for (const Shape& shape : {Shape{3, 40, 12}, {5, 7}, {16}, {2, 3, 5, 8}, {0, 8}, {4, 0}, {2, 0, 8}})
      check_both(draw(shape, 1), draw(shape, 2));
    check_both(draw({1, 64}, 3).broadcast_to({90, 64}), draw({64, 90}, 4).T());
    check_both(draw({91, 64}, 5).slice(0, 1, 91), draw({90, 65}, 6).slice(1, 1, 65));
  }
  CHECK_THROWS_AS(called("silu_backward_bias", {zeros({2, 3}), zeros({3, 2})}), ShapeError);
  CHECK_THROWS_AS(called("silu_backward_bias", {zeros({}), zeros({})}), ShapeError);
  CHECK_THROWS_AS(called("silu_backward_bias", {zeros({2, 3}, {.dtype = float16}), zeros({2, 3})}), DTypeError);
}

TEST_CASE("NaN and infinities reach the sum of a gradient, and no other column", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const double special : {inf, -inf, std::nan(""), 3e38, 1e-40}) {
    for (const bool in_head : {false, true}) {
      NDArray dy = random_array({300, 64}, 1, -2, 2, bfloat16), x = random_array({300, 64}, 2, -5, 5, bfloat16);
      (in_head ? dy : x).slice(0, 257, 258).slice(1, 9, 10).assign(special);
      check_both(dy.to(gpu()), x.to(gpu()));
      if (!std::isnan(special))
        continue;
      const auto sums = called("gelu_tanh_backward_bias", {dy.to(gpu()), x.to(gpu())})[1].to_vector<float>();
      for (std::size_t i = 0; i < sums.size(); ++i)
        CHECK(std::isnan(sums[i]) == (i == 9));
    }
  }
}

TEST_CASE("Layers with an activation between them are by a plan what they are by hand", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::pair<std::string, Activation> activations[] = {
      {"gelu_tanh", by_tanh}, {"gelu", [](const NDArray& x) { return gelu(x); }}, {"silu", [](const NDArray& x) {
                                                                                     return silu(x);
                                                                                   }}};
  for (const auto& [name, activation] : activations) {
    for (const DType dtype : {bfloat16, float32}) {
      for (const std::int64_t units : {200, 201}) {
        CAPTURE(name, dtype, units);
        const Arrays given = draw_layers({4, 128, 300}, units, dtype, gpu());
        graph::Plan plan(traced(given, [&](const Arrays& in) { return layers(in, activation); }));
        CHECK(count(plan.graph(), name + "_backward_bias") == 1);
        CHECK(count(plan.graph(), "dense_backward_bias") == 0);
        const auto wanted = all_bytes(layers(given, activation));
        for (int run = 0; run < 2; ++run)
          CHECK((all_bytes(plan.run(given)) == wanted));
      }
    }
  }
}

TEST_CASE("A sum stays apart from a gradient where it could not be the same, or would cost a pass", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Arrays given = draw_layers({512, 300}, 200, float32, gpu());
  CHECK(joined(traced(given, [](const Arrays& in) { return layers(in, by_tanh); })) == 1);
  CHECK(joined(traced(draw_layers({512, 300}, 200, float32, cpu()), [](const Arrays& in) {
          return layers(in, by_tanh);
        })) == 0);
  CHECK(joined(traced(given, [](const Arrays& in) {
          return layers(in, [](const NDArray& x) { return tanh(x); });
        })) == 0);
  const Operator& gradient = *find_operator("gelu_tanh_backward");
  const Operator& bias = *find_operator("dense_backward_bias");
  enum class Between { nothing, a_product, a_write, another_shape, a_reader };
  const auto with = [&](Between between, Device device = gpu()) {
    const NDArray like = given[1].to(device);
    return joined(traced({like, like}, [&](const Arrays& in) {
      const NDArray dy = between == Between::a_product ? in[0] * 2.0 : in[0];
      NDArray dx = invoke_one(gradient, {dy, in[1], dy}, {}, SourceLocation::current());
      if (between == Between::a_write)
        dx += 1.0;
      const NDArray terms = between == Between::another_shape ? dx.reshape({100, 600}) : dx;
      return Arrays{
          between == Between::a_reader ? dx * in[1] : dx, invoke_one(bias, {terms}, {}, SourceLocation::current())};
    }));
  };
  CHECK(with(Between::nothing) == 1);
  CHECK(with(Between::nothing, cpu()) == 0);
  CHECK(with(Between::a_reader) == 0);
  CHECK(with(Between::a_product) == 0);
  CHECK(with(Between::a_write) == 0);
  CHECK(with(Between::another_shape) == 0);
}

TEST_CASE("A gradient with its sum takes the place of what it is made of", "[graph]") {
  const NDArray like = random_array({64, 32}, 1, -1, 1);
  const auto takes = [&](std::size_t input) {
    Tracer tracer;
    const NDArray given = tracer.input({like.shape(), like.dtype(), cpu()});
    const Graph graph = tracer.trace([&] {
      const NDArray dy = softmax(given), x = tanh(given);
      const Arrays both = invoke(*find_operator("silu_backward_bias"), Arrays{dy, x}, {}, SourceLocation::current());
      return Arrays{input == 0 ? exp(both[0]) + x : exp(both[0]) + dy, both[1]};
    });
    const auto node = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& one) {
      return one.op->name == std::string("silu_backward_bias");
    });
    const graph::MemoryPlan memory = graph::plan_memory(graph, graph::values_apart(graph), graph::Sharing::in_order);
    return memory.slot_of[node->inputs[input]] == memory.slot_of[node->results[0].value];
  };
  CHECK(takes(0));
  CHECK(takes(1));
}

TEST_CASE("A gradient with its sum counts what the two counted", "[graph][flops]") {
  const Arrays like{zeros({6, 5}), zeros({6, 5})};
  const Graph graph = traced(like, [](const Arrays& in) { return called("silu_backward_bias", in); });
  CHECK(graph::flops(graph) == 2 * 6 * 5);
}
