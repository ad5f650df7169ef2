// The pass that makes a convolution with relu and the pooling behind it one call, and their gradients another: which it
// takes, which it must not, and that results are the same to the last bit.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <sluice/ndarray/detail/simd_target.h>
#include <sluice/operator/api.h>
#include <sluice/operator/conv/pooled.h>
#include <sluice/operator/graph/flops.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>

#include "tests/operator/pooled_network.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;

namespace {

/// What the pass makes of a step, when it is seen to give the bits of the step by hand, twice.
Graph check(const PooledNetwork& net, const Arrays& inputs) {
  const auto body = [&](const Arrays& in) { return net.trained(in); };
  const auto wanted = all_bytes(body(inputs));
  const Graph graph = alive_trace(inputs, body);
  const Graph made = with_pooled_convolutions(graph);
  verify(made);
  CHECK(flops(made) == flops(graph));
  CHECK((all_bytes(evaluate(made, inputs)) == wanted));
  Plan plan(graph);
  for (int run = 0; run < 2; ++run)
    CHECK((all_bytes(plan.run(inputs)) == wanted));
  return made;
}

const PooledNetwork k_networks[] = {
    {{1, 1, 28, 28}, {32, 1, 3, 3}},
    {{13, 1, 28, 28}, {32, 1, 3, 3}},
    {{64, 1, 28, 28}, {32, 1, 3, 3}},
    {{2, 3, 9, 9}, {5, 3, 3, 3}},
    {{5, 7, 12, 11}, {17, 7, 3, 2}, {}, {.kernel = {2, 3}}},
    {{9, 32, 20, 18}, {64, 32, 3, 3}, {.pad = {1, 1}}},
    {{3, 16, 15, 15}, {48, 16, 3, 3}, {.stride = {2, 1}, .pad = {1, 0}}, {.kernel = {3, 3}}},
    {{4, 8, 16, 16}, {24, 8, 3, 3}, {.dilation = {2, 2}}, {.kernel = {2, 2}, .stride = {3, 4}}},
    {{4, 6, 14, 14}, {10, 3, 3, 3}, {.groups = 2}},
    {{8, 32, 14, 14}, {64, 16, 3, 3}, {.groups = 2}},
    {{6, 24, 10, 10}, {24, 1, 3, 3}, {.groups = 24}},
    {{2, 64, 6, 6}, {256, 64, 1, 1}},
    {{1, 64, 20, 20}, {136, 64, 3, 3}},  // cut along channels
    {{2, 3, 8, 8}, {16, 3, 8, 8}, {}, {.kernel = {1, 1}}},
    {{3, 4, 16, 16}, {16, 4, 3, 3}, {}, {.kernel = {14, 14}}},
};

}  // namespace

TEST_CASE("A convolution and its pooling in one call give the bits of two calls", "[graph][pooled]") {
  for (const PooledNetwork& each : k_networks) {
    for (const bool bias : {true, false}) {
      for (const bool of_x : {true, false}) {
        CAPTURE(each.x, each.weight, bias, of_x);
        const PooledNetwork net = each.with(bias, of_x);
        const Graph made = check(net, net.inputs());
        CHECK(nodes_named(made, "convolution_relu_pool") == 1);
        CHECK(nodes_named(made, "convolution_relu_pool_backward") == 1);
        for (const char* gone : {"convolution_relu", "max_pool2d", "max_pool2d_backward", "convolution_relu_backward"})
          CHECK(nodes_named(made, gone) == 0);
      }
    }
  }
}

TEST_CASE("A pooled convolution gives the bits of two calls on every instruction set", "[graph][pooled]") {
  for (const simd::Target target : {simd::Target::scalar, simd::Target::avx2, simd::Target::neon}) {
    if (!simd::is_available(target))
      continue;
    const simd::TargetScope scope(target);
    for (const std::size_t which : {1, 4, 7, 9}) {
      CAPTURE(static_cast<int>(target), which);
      const PooledNetwork net = k_networks[which].with(true, true);
      check(net, net.inputs());
    }
  }
}

TEST_CASE("NaN, infinities and ties of a pooled convolution are as by hand", "[graph][pooled]") {
  const PooledNetwork net = PooledNetwork{{3, 2, 12, 12}, {16, 2, 1, 1}}.with(true, true);
  Arrays inputs = net.inputs();
  const NDArray& x = inputs[0];
  x.slice(0, 0, 1).assign(0);  // all windows are ties
  inputs[2].assign(0);
  x.slice(0, 1, 2).slice(2, 3, 4).slice(3, 4, 6).assign(NAN);
  x.slice(0, 2, 3).slice(2, 0, 2).assign(INFINITY);
  inputs[1].slice(0, 3, 4).assign(-1.0);
  inputs[3].slice(0, 2, 3).assign(NAN);  // as a gradient, of windows that relu masks too
  check(net, inputs);
}

TEST_CASE("The gradient of a bias is added up as by hand, behind a pooling too", "[graph][pooled]") {
  const PooledNetwork net = PooledNetwork{{3, 2, 10, 11}, {17, 2, 1, 1}, {}, {.kernel = {1, 1}}}.with(true, false);
  Arrays inputs = net.inputs();
  inputs[2].assign(100);  // relu masks nothing
  // Sums of 0 but for what is rounded away on the way, which follows the order.
  const NDArray half = exp(random_array({3, 17, 5, 11}, 5, -20, 20));
  inputs[3] = concat({half, -half}, 2);
  CHECK(sum(abs(net.trained(inputs)[2])).item<float>() > 0);
  check(net, inputs);
}

TEST_CASE("A pooled convolution gives the same bits for any number of workers", "[graph][pooled]") {
  for (const std::size_t which : {2, 5, 9, 12}) {
    const PooledNetwork net = k_networks[which].with(true, which != 12);
    std::vector<std::vector<std::string>> seen;
    for (const int workers : {1, 2, 4}) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      const Arrays inputs = net.inputs();
      Plan plan(alive_trace(inputs, [&](const Arrays& in) { return net.trained(in); }));
      seen.push_back(all_bytes(plan.run(inputs)));
    }
    CHECK((seen[0] == seen[1]));
    CHECK((seen[0] == seen[2]));
  }
}

TEST_CASE("A convolution whose result is pooled and not trained is one call too", "[graph][pooled]") {
  const PooledNetwork net = k_networks[5].with(true, false);
  const Arrays inputs = net.inputs();
  const auto body = [&](const Arrays& in) { return Arrays{net(in[0], in[1], in[2])}; };
  const Graph made = with_pooled_convolutions(alive_trace(inputs, body));
  CHECK(made.nodes.size() == 1);
  CHECK(nodes_named(made, "convolution_relu_pool") == 1);
  CHECK((all_bytes(evaluate(made, inputs)) == all_bytes(body(inputs))));
}

TEST_CASE("A convolution whose result others read is not pooled in its call", "[graph][pooled]") {
  const PooledNetwork net = k_networks[3].with(true, true);
  const auto taken = [](const Arrays& inputs, const auto& body) {
    const Graph graph = alive_trace(inputs, body);
    const Graph made = with_pooled_convolutions(graph);
    CHECK((all_bytes(Plan(graph).run(inputs)) == all_bytes(body(inputs))));
    return nodes_named(made, "convolution_relu_pool");
  };
  const Arrays inputs = net.inputs();
  const auto sums = [&](const Arrays& in) { return convolution(in[0], in[1], in[2], net.convolution); };
  const auto pooled_so = [&](const PoolOptions& pool) {
    return taken(inputs, [&](const Arrays& in) { return Arrays{max_pool2d(sums(in), pool)}; });
  };
  CHECK(pooled_so({}) == 1);
  CHECK(pooled_so({.kernel = {3, 3}, .stride = {2, 2}}) == 0);
  CHECK(pooled_so({.pad = {1, 1}}) == 0);
  CHECK(pooled_so({.kernel = {2, 2}, .stride = {5, 5}, .ceil_mode = true}) == 1);  // all windows lie inside
  CHECK(pooled_so({.kernel = {3, 3}, .ceil_mode = true}) == 0);
  CHECK(taken(inputs, [&](const Arrays& in) {
          const NDArray y = sums(in);
          return Arrays{max_pool2d(y), y};
        }) == 0);
  CHECK(taken(inputs, [&](const Arrays& in) {
          const NDArray y = sums(in);
          return Arrays{max_pool2d(y), max_pool2d(y, {.kernel = {3, 3}})};
        }) == 0);
  CHECK(taken(inputs, [&](const Arrays& in) { return Arrays{max_pool2d(convolution(in[0], in[1], in[2]))}; }) == 0);
  for (const DType dtype : {float64, float16, bfloat16}) {
    const Arrays others = net.inputs(dtype);
    CHECK(taken(others, [&](const Arrays& in) { return net.trained(in); }) == 0);
  }
}

TEST_CASE("A weight that is written before the gradients keeps them apart from it", "[graph][pooled]") {
  const PooledNetwork net = k_networks[3].with(true, true);
  const Arrays inputs = net.inputs();
  // The pool's gradient comes before the write, the convolution's behind it.
  const auto body = [&](const Arrays& in) {
    NDArray x = in[0].copy(), w = in[1].copy();
    x.attach_grad();
    w.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = net(x, w, in[2]);
    }
    y.backward(in[3]);
    const NDArray first = x.grad().copy();
    w.assign(1);
    return Arrays{first, w.grad(), w};
  };
  const auto wanted = all_bytes(body(inputs));
  const Graph graph = alive_trace(inputs, body);
  CHECK((all_bytes(Plan(graph).run(inputs)) == wanted));
  CHECK((all_bytes(evaluate(with_pooled_convolutions(graph), inputs)) == wanted));
}

TEST_CASE("relu's mask along with the gradients of a weight gives the bits of two calls", "[graph][pooled]") {
  for (const PooledNetwork& each : k_networks) {
    for (const bool bias : {true, false}) {
      CAPTURE(each.x, each.weight, bias);
      const PooledNetwork net = each.with(bias, false);
      const Arrays in = net.inputs();
      const NDArray y = convolution(in[0], in[1], in[2], net.convolution), dy = random_array(y.shape(), 5, -1, 1);
      const auto call = [&](const char* op, const Arrays& operands, bool two) {
        sluice::detail::ConvolutionAttributes how{
            .stride = net.convolution.stride,
            .pad = net.convolution.pad,
            .dilation = net.convolution.dilation,
            .groups = net.convolution.groups,
            .bias = two};
        return invoke(*find_operator(op), operands, Attributes::of(how), SourceLocation::current());
      };
      const Operator& mask = *find_operator("convolution_relu_backward");
      const Arrays masked = invoke(mask, Arrays{dy, y}, parse_attributes(mask, "bias=true"), SourceLocation::current());
      Arrays wanted = call("convolution_backward_weights", {in[0], masked[0], in[1]}, false);
      if (bias)
        wanted.push_back(masked[1]);
      CHECK((all_bytes(call("convolution_relu_backward_weights", {in[0], dy, y, in[1]}, bias)) == all_bytes(wanted)));
    }
  }
}

TEST_CASE("Pooled convolutions called by name take all floating types", "[graph][pooled]") {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const std::size_t which : {3, 4, 7, 8}) {
      CAPTURE(dtype, which);
      const PooledNetwork net = k_networks[which].with(true, true);
      const Arrays in = net.inputs(dtype), wanted = net.trained(in);
      sluice::detail::PooledConvolutionAttributes how{
          .stride = net.convolution.stride,
          .pad = net.convolution.pad,
          .dilation = net.convolution.dilation,
          .groups = net.convolution.groups,
          .pool_kernel = net.pool.kernel,
          .pool_stride = net.pool.stride.ndim() == 0 ? net.pool.kernel : net.pool.stride,
          .bias = true,
          .data = true};
      const auto call = [&](const char* op, const Arrays& operands) {
        return invoke(*find_operator(op), operands, Attributes::of(how), SourceLocation::current());
      };
      const Arrays pooled = call("convolution_relu_pool", {in[0], in[1], in[2]});
      const Arrays grads = call("convolution_relu_pool_backward", {in[3], pooled[1], in[0], in[1]});
      CHECK((all_bytes({pooled[0], grads[0], grads[1], grads[2]}) == all_bytes(wanted)));
    }
  }
}

TEST_CASE("Calls of pooled convolutions refuse what does not fit", "[graph][pooled]") {
  const auto call = [](const char* op, const Arrays& in, const char* how) {
    const Operator& found = *find_operator(op);
    return invoke(found, in, parse_attributes(found, how), SourceLocation::current());
  };
  const NDArray x = ones({2, 3, 6, 6}), w = ones({4, 3, 3, 3});
  const char* const forward = "convolution_relu_pool";
  CHECK_THROWS_AS(call(forward, {x, w}, "pool_kernel=(2, 2), pool_stride=(1, 2)"), ValueError);
  CHECK_THROWS_AS(call(forward, {x, w}, "pool_kernel=(5, 5), pool_stride=(5, 5)"), ShapeError);
  CHECK_THROWS_AS(call(forward, {x, w}, "pool_kernel=(16, 16), pool_stride=(16, 16)"), ValueError);
  CHECK_THROWS_AS(call(forward, {x, w, ones({3})}, ""), ShapeError);
  const Arrays made = call(forward, {x, w}, "");
  const char* const backward = "convolution_relu_pool_backward";
  CHECK(call(backward, {made[0], made[1], x, w}, "bias=true, data=true").size() == 3);
  CHECK_THROWS_AS(call(backward, {x, made[1], x, w}, ""), ShapeError);
  CHECK_THROWS_AS(call(backward, {made[0], made[0], x, w}, ""), DTypeError);
  // Places that no forward pass gave are taken for masked.
  const NDArray places = full(made[1].shape(), 77, {.dtype = uint8});
  CHECK(sum(call(backward, {made[0], places, x, w}, "")[0]).item<float>() == 0);
  const NDArray wide = ones({1, 1, 5, 5}, {.dtype = float64}), filter = ones({1, 1, 3, 3}, {.dtype = float64});
  const NDArray beyond = full({1, 1, 1, 1}, 4, {.dtype = uint8});  // of a window of 4, in the image
  CHECK(
      sum(call(backward, {full({1, 1, 1, 1}, 1, {.dtype = float64}), beyond, wide, filter}, "")[0]).item<double>() ==
      0);
  // A wrong place is seen.
  const NDArray other = made[1].copy();
  other.slice(3, 0, 1).assign(3);
  const auto bytes = [&](const NDArray& from) { return all_bytes(call(backward, {made[0], from, x, w}, "data=true")); };
  CHECK((bytes(made[1]) == bytes(made[1].copy())));
  CHECK((bytes(made[1]) != bytes(other)));
}
