// The pass that makes one call of two: which it takes, which it must not, and what the calls give.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/memory_plan.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

namespace {

using Names = std::vector<std::string>;

Names names_of(const Graph& graph) {
  Names names;
  for (const graph::Node& node : graph.nodes)
    names.emplace_back(node.op->name);
  return names;
}

bool has(const Graph& graph, const std::string& name) {
  const Names names = names_of(graph);
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The graph of `body` after the pass, when it is seen that it gives the same bits as without, twice.
template <class Body>
Graph combined(const Arrays& inputs, const Body& body) {
  Tracer tracer;
  Arrays traced;
  for (const NDArray& input : inputs)
    traced.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  const Graph graph = without_dead_code(tracer.trace([&] { return body(traced); }));
  const Graph made = with_combined_calls(graph);
  verify(made);
  const auto wanted = all_bytes(evaluate(graph, inputs));
  CHECK((all_bytes(body(inputs)) == wanted));
  Plan plan(made, {.optimise = false});
  for (int run = 0; run < 2; ++run)
    CHECK((all_bytes(plan.run(inputs)) == wanted));
  Plan whole(graph);
  CHECK((all_bytes(whole.run(inputs)) == wanted));
  return made;
}

/// Gradients of two dense layers, the first with a relu, of x of so many rows.
Arrays two_layers(const Arrays& in, bool looks) {
  NDArray w = in[1].copy(), v = in[2].copy();
  NDArray bias = in[3].copy();
  for (NDArray* each : {&w, &v, &bias})
    each->attach_grad();
  NDArray hidden, y;
  {
    const autograd::RecordScope record;
    hidden = dense(in[0], w, bias, {.activation = "relu"});
    y = dense(hidden, v, {});
  }
  y.backward();
  Arrays made{w.grad(), v.grad(), bias.grad()};
  if (looks)
    made.push_back(hidden);
  return made;
}

const std::string k_masked = "matmul_relu_backward", k_loss = "softmax_cross_entropy_both";

Arrays layers(std::int64_t rows, std::int64_t in, std::int64_t hidden, std::int64_t out, DType dtype, Device device) {
  Arrays arrays{
      random_array({rows, in}, 1, -2, 2, dtype),
      random_array({hidden, in}, 2, -1, 1, dtype),
      random_array({out, hidden}, 3, -1, 1, dtype),
      random_array({hidden}, 4, -1, 1, dtype)};
  for (NDArray& array : arrays)
    array = array.to(device);
  return arrays;
}

/// Losses of logits and the gradient, as a trainer has them.
Arrays loss_of(const Arrays& in, int axis, bool weighted, std::optional<std::int64_t> ignored = {}) {
  NDArray logits = in[0].copy();
  logits.attach_grad();
  NDArray losses;
  {
    const autograd::RecordScope record;
    losses = softmax_cross_entropy(logits, in[1], {.axis = axis, .ignored = ignored});
  }
  losses.backward(weighted ? losses * 2.0 : NDArray());
  return {losses, logits.grad()};
}

void check_layers(Device device) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const auto& [rows, in, hidden, out] :
         {std::array<std::int64_t, 4>{7, 5, 9, 3}, {64, 20, 33, 10}, {130, 8, 300, 40}, {300, 3, 260, 200}}) {
      CAPTURE(dtype, rows, hidden, out);
      const Graph made = combined(
          layers(rows, in, hidden, out, dtype, device), [](const Arrays& given) { return two_layers(given, false); });
      CHECK(has(made, k_masked));
      CHECK_FALSE(has(made, "relu_backward"));
    }
  }
}

void check_losses(Device device) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const auto& [shape, axis] :
         {std::pair{Shape{5, 10}, 1}, {Shape{8, 64}, -1}, {Shape{4, 7, 6}, 1}, {Shape{3, 3000}, 1}}) {
      CAPTURE(dtype, shape);
      Shape rows = shape;
      rows.erase(axis < 0 ? shape.ndim() + axis : axis);
      const NDArray logits = random_array(shape, 4, -8, 8, dtype).to(device);
      const NDArray labels = random_array(rows, 5, 0, 2.9).astype(int32).to(device);
      for (const std::optional<std::int64_t> ignored :
           {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)}) {
        CAPTURE(ignored.has_value());
        const Graph made = combined(
            {logits, labels}, [&, axis = axis](const Arrays& in) { return loss_of(in, axis, false, ignored); });
        CHECK(has(made, k_loss));
        CHECK_FALSE(has(made, "softmax_cross_entropy_backward"));
      }
    }
  }
}

/// Losses, and the gradient behind the logits: only the loss sees these and their own gradient.
Arrays loss_of_product(const Arrays& in, int axis) {
  NDArray x = in[0].copy();
  x.attach_grad();
  NDArray losses;
  {
    const autograd::RecordScope record;
    // The head is as large as the losses, which must not come to lie over it.
    losses = softmax_cross_entropy(matmul(x, in[1]), in[2], axis) * in[3];
  }
  losses.backward();
  return {losses, x.grad()};
}

// What an operator's kernel gives where the gradient lies over the logits.
void check_gradients_over_logits(Device device) {
  for (const DType dtype : {float32, float16, bfloat16}) {
    for (const auto& [rows, classes, axis] :
         {std::array<int, 3>{6, 7, 1},
          {40, 64, 1},
          {3, 3001, 1},
          {300, 1000, 1},
          {2, 20000, 1},
          {9, 33, 0},
          {2, 2, 1},
          {2, 6, 0},
          {2, 300, 0}}) {
      CAPTURE(dtype, rows, classes, axis);
      const Arrays in{
          random_array({rows, 5}, 4, -4, 4, dtype).to(device),
          random_array({5, classes}, 6, -4, 4, dtype).to(device),
          random_array({axis == 1 ? rows : classes}, 5, 0, 1.9).astype(int32).to(device),
          random_array({axis == 1 ? rows : classes}, 7, 0.5, 2, dtype).to(device)};
      const Graph made = combined(in, [axis = axis](const Arrays& given) { return loss_of_product(given, axis); });
      const graph::MemoryPlan plan = plan_memory(made, values_apart(made));
      for (const graph::Node& node : made.nodes) {
        if (node.op->name == k_loss) {
          REQUIRE(plan.slot_of[node.inputs[0]].has_value());
          CHECK(plan.slot_of[node.inputs[0]] == plan.slot_of[node.results[2].value]);
          CHECK(plan.slot_of[node.inputs[0]] != plan.slot_of[node.results[1].value]);
          CHECK(plan.slot_of[node.inputs[2]] != plan.slot_of[node.results[0].value]);
        }
      }
      CHECK(has(made, k_loss));
    }
  }
}

}  // namespace

TEST_CASE("The gradient of a loss lies where the logits did", "[graph][combination]") {
  check_gradients_over_logits(cpu());
}

TEST_CASE("The gradient of a loss lies where the logits did on a GPU", "[graph][combination][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_gradients_over_logits(gpu());
}

TEST_CASE("A product whose gradient goes through a relu is one call", "[graph][combination]") {
  check_layers(cpu());
}

TEST_CASE("A product whose gradient goes through a relu is one call on a GPU", "[graph][combination][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_layers(gpu());
}

TEST_CASE("On a GPU the gradient of a bias is a call beside that of a large weight", "[graph][combination][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, bfloat16}) {
    for (const std::int64_t rows : {64, 512}) {
      const Arrays given = layers(rows, 300, 200, 10, dtype, gpu());
      Tracer tracer;
      Arrays traced;
      for (const NDArray& each : given)
        traced.push_back(tracer.input({each.shape(), each.dtype(), each.device()}));
      Plan plan(tracer.trace([&] { return two_layers(traced, false); }));
      CHECK(has(plan.graph(), "dense_backward_bias") == (rows == 512));  // 8 million products are one small kernel
      const auto wanted = all_bytes(two_layers(given, false));
      for (int run = 0; run < 3; ++run)
        CHECK((all_bytes(plan.run(given)) == wanted));
    }
  }
}

TEST_CASE("A loss and its gradient are one call", "[graph][combination]") {
  check_losses(cpu());
}

TEST_CASE("What comes of a loss is computed behind its gradient", "[graph][combination]") {
  const NDArray logits = random_array({6, 10}, 4, -8, 8), labels = random_array({6}, 5, 0, 9.9).astype(int32);
  const auto step = [](const Arrays& in, double weight, const auto& more) {
    NDArray x = in[0].copy();
    x.attach_grad();
    NDArray losses, value;
    {
      const autograd::RecordScope record;
      losses = softmax_cross_entropy(x * weight, in[1], 1);
      value = mean(losses);
    }
    value.backward();
    Arrays made{value, x.grad()};
    more(losses, x, made);
    return made;
  };
  const auto nothing = [](const NDArray&, const NDArray&, Arrays&) {};
  const Graph made = combined({logits, labels}, [&](const Arrays& in) { return step(in, 1, nothing); });
  CHECK(has(made, k_loss));
  CHECK_FALSE(has(made, "softmax_cross_entropy_backward"));
  // Two losses of one input; and one whose logits come of another's mean.
  const auto twice = [&](const Arrays& in) {
    Arrays both = step(in, 1, nothing);
    for (const NDArray& one : step(in, 2, nothing))
      both.push_back(one);
    return both;
  };
  CHECK_FALSE(has(combined({logits, labels}, twice), "softmax_cross_entropy_backward"));
  const auto one_of_another = [&](const Arrays& in) {
    const Arrays first = step(in, 1, nothing);
    Arrays both = step({in[0] * first[0], in[1]}, 1, nothing);
    both.insert(both.end(), first.begin(), first.end());
    return both;
  };
  CHECK_FALSE(has(combined({logits, labels}, one_of_another), "softmax_cross_entropy_backward"));
  // Memory that is written when the loss is known; logits that are written then.
  CHECK(
      has(combined(
              {logits, labels},
              [&](const Arrays& in) {
                return step(in, 1, [](const NDArray& losses, const NDArray&, Arrays& all) {
                  NDArray kept = zeros({6});
                  kept += losses;
                  all.push_back(kept);
                });
              }),
          k_loss));
  const auto overwritten = [](const Arrays& in) {
    NDArray x = in[0].copy();
    const NDArray dy = ones({6});
    const Operator &forward = *find_operator("softmax_cross_entropy"),
                   &backward = *find_operator("softmax_cross_entropy_backward");
    const Attributes axis = parse_attributes(forward, "axis=1");
    const Arrays made = invoke(forward, Arrays{x, in[1]}, axis, SourceLocation::current());
    x += made[0].expand_dims(1);
    return Arrays{invoke(backward, Arrays{x, in[1], made[1], dy}, axis, SourceLocation::current())[0], made[0]};
  };
  CHECK_FALSE(has(combined({logits, labels}, overwritten), k_loss));
}

TEST_CASE("A loss and its gradient are one call on a GPU", "[graph][combination][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_losses(gpu());
}

TEST_CASE("NaN and infinity pass a masked product as they pass the two calls", "[graph][combination]") {
  Arrays given = layers(6, 4, 8, 3, float32, cpu());
  std::vector<float> x = given[0].to_vector<float>();
  x[1] = NAN;
  x[6] = INFINITY;
  x[11] = -INFINITY;
  given[0] = array(x, {6, 4});
  CHECK(has(combined(given, [](const Arrays& in) { return two_layers(in, false); }), k_masked));
}

TEST_CASE("What others want to see stays a call of its own", "[graph][combination]") {
  const Arrays given = layers(6, 4, 8, 3, float32, cpu());
  // The relu's result is read by others: that is not what goes.
  CHECK(has(combined(given, [](const Arrays& in) { return two_layers(in, true); }), k_masked));
  const NDArray y = random_array({6, 8}, 7, -1, 1);
  const Arrays products{given[0], given[1].T().copy(), y};
  const auto masked = [](const NDArray& dy, const NDArray& of) {
    return invoke_one(*find_operator("relu_backward"), {dy, dy, of}, {}, SourceLocation::current());
  };
  CHECK(
      has(combined(products, [&](const Arrays& in) { return Arrays{masked(matmul(in[0], in[1]), in[2])}; }), k_masked));
  // The product is wanted, or read once more.
  CHECK_FALSE(
      has(combined(
              products,
              [&](const Arrays& in) {
                const NDArray product = matmul(in[0], in[1]);
                return Arrays{masked(product, in[2]), product};
              }),
          k_masked));
  CHECK_FALSE(
      has(combined(
              products,
              [&](const Arrays& in) {
                const NDArray product = matmul(in[0], in[1]);
                return Arrays{masked(product, in[2]), sum(product)};
              }),
          k_masked));
  // Another shape in between, and the relu of the product itself.
  CHECK_FALSE(has(
      combined(
          products,
          [&](const Arrays& in) { return Arrays{masked(matmul(in[0], in[1]).reshape({48}), in[2].reshape({48}))}; }),
      k_masked));
  CHECK_FALSE(
      has(combined(
              products,
              [&](const Arrays& in) {
                const NDArray product = matmul(in[0], in[1]);
                return Arrays{masked(product, product)};
              }),
          k_masked));
  // An operand is written before the relu's gradient is taken.
  CHECK_FALSE(
      has(combined(
              products,
              [&](const Arrays& in) {
                NDArray a = in[0].copy();
                const NDArray product = matmul(a, in[1]);
                a += 1.0;
                return Arrays{masked(product, in[2]), a};
              }),
          k_masked));
}

TEST_CASE("A loss that is looked at before its gradient stays a call of its own", "[graph][combination]") {
  const NDArray logits = random_array({5, 10}, 4, -8, 8), labels = array({1, 0, 9, 3, 3}, {5}).astype(int32);
  CHECK_FALSE(has(combined({logits, labels}, [](const Arrays& in) { return loss_of(in, 1, true); }), k_loss));
  // A label out of range fails either way, and nothing is lost of what comes next.
  Tracer tracer;
  const Arrays traced{tracer.input({{5, 10}, float32, cpu()}), tracer.input({{5}, int32, cpu()})};
  Plan plan(tracer.trace([&] { return loss_of(traced, 1, false); }));
  CHECK(has(plan.graph(), k_loss));
  const Arrays bad = plan.run(Arrays{logits, array({1, 0, 10, 3, 3}, {5}).astype(int32)});
  CHECK_THROWS_AS(bad[0].to_vector<float>(), IndexError);
  CHECK_THROWS_AS(bad[1].to_vector<float>(), IndexError);
  CHECK(all_bytes(plan.run(Arrays{logits, labels})) == all_bytes(loss_of({logits, labels}, 1, false)));
}

TEST_CASE("The combined calls refuse what does not fit", "[graph][combination]") {
  const Operator &masked = *find_operator(k_masked), &loss = *find_operator(k_loss);
  const NDArray a = ones({2, 3}), b = ones({3, 4});
  const auto call = [&](const Operator& op, const Arrays& inputs) {
    return invoke(
        op,
        inputs,
        parse_attributes(op, op.name == k_loss ? "axis=1" : "transpose_a=false, transpose_b=false"),
        SourceLocation::current());
  };
  CHECK_THROWS_AS(call(masked, {a, b, ones({2, 3})}), ShapeError);
  CHECK_THROWS_AS(call(masked, {a, b, ones({2, 4}, {.dtype = float64})}), DTypeError);
  CHECK_THROWS_AS(call(masked, {a, a, ones({2, 3})}), ShapeError);
  const NDArray whole = ones({2, 2}, {.dtype = int32});
  CHECK_THROWS_AS(call(masked, {whole, whole, whole}), DTypeError);
  const NDArray labels = zeros({2}, {.dtype = int32});
  CHECK_THROWS_AS(call(loss, {a, labels, ones({3})}), ShapeError);
  CHECK_THROWS_AS(call(loss, {a, labels, ones({2}, {.dtype = float64})}), DTypeError);
}
