// Pooled convolutions in programs of many kinds: gradients put together by hand, what others write and want, nothing.
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
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

const PooledNetwork k_small = {{2, 3, 9, 9}, {5, 3, 3, 3}};

Arrays called(const char* name, const Arrays& operands, const char* how = "") {
  const Operator& op = *find_operator(name);
  return invoke(op, operands, parse_attributes(op, how), SourceLocation::current());
}

}  // namespace

TEST_CASE("Gradients of a pooled convolution that a program puts together itself", "[graph][pooled]") {
  const PooledNetwork net = k_small.with(true, true);
  // Of other images and weights in either pass; what is in between may be asked for, and gradients that no call has.
  enum class Asked { none, places, unpooled, masked, second, bias };
  for (const Asked asked : {Asked::none, Asked::places, Asked::unpooled, Asked::masked, Asked::second, Asked::bias}) {
    CAPTURE(static_cast<int>(asked));
    const auto body = [&](const Arrays& in) {
      const NDArray y = convolution(in[0], in[1], in[2], net.convolution);
      const Arrays maxima = called("max_pool2d", {y});
      const NDArray unpooled = called("max_pool2d_backward", {in[3], maxima[1], y})[0];
      const Arrays masked = called("convolution_relu_backward", {unpooled, y}, "bias=true");
      Arrays made{maxima[0], masked[1]};
      for (const NDArray& gradient :
           called("convolution_backward_weights", {in[4], masked[0], in[1]}, asked == Asked::bias ? "bias=true" : ""))
        made.push_back(gradient);
      made.push_back(called("convolution_backward_data", {masked[0], in[5], in[0]})[0]);
      if (asked == Asked::places)
        made.push_back(maxima[1]);
      if (asked == Asked::unpooled || asked == Asked::masked)
        made.push_back(asked == Asked::unpooled ? unpooled : masked[0]);
      if (asked == Asked::second)
        made.push_back(called("convolution_backward_weights", {in[0], masked[0], in[1]})[0]);
      return made;
    };
    Arrays inputs = net.inputs();
    inputs.push_back(random_array(net.x, 11));
    inputs.push_back(random_array(net.weight, 12));
    const auto wanted = all_bytes(body(inputs));
    const Graph graph = alive_trace(inputs, body), made = with_pooled_convolutions(graph);
    CHECK(nodes_named(made, "convolution_relu_pool") == (asked == Asked::none ? 1 : 0));
    CHECK((all_bytes(evaluate(made, inputs)) == wanted));
    CHECK((all_bytes(Plan(graph).run(inputs)) == wanted));
  }
}

TEST_CASE("What is written between a convolution and its pooling keeps them apart", "[graph][pooled]") {
  const PooledNetwork net = k_small.with(true, false);
  const Arrays inputs = net.inputs();
  const auto body = [&](const Arrays& in) {
    const NDArray x = in[0].copy(), y = convolution(x, in[1], in[2], net.convolution);
    x.assign(1);
    return Arrays{max_pool2d(y), x};
  };
  const auto wanted = all_bytes(body(inputs));
  const Graph graph = alive_trace(inputs, body);
  CHECK(nodes_named(with_pooled_convolutions(graph), "convolution_relu_pool") == 0);
  CHECK((all_bytes(evaluate(with_pooled_convolutions(graph), inputs)) == wanted));
}

TEST_CASE("A head that is written before the gradients keeps them apart", "[graph][pooled]") {
  const PooledNetwork net = k_small.with(true, true);
  const Arrays inputs = net.inputs();
  for (const bool whole : {true, false}) {  // the mask along with the gradients, and before them
    CAPTURE(whole);
    const auto body = [&](const Arrays& in) {
      const NDArray head = in[3].copy(), y = convolution(in[0], in[1], in[2], net.convolution);
      const Arrays maxima = called("max_pool2d", {y});
      const NDArray unpooled = called("max_pool2d_backward", {head, maxima[1], y})[0];
      head.assign(1);
      if (whole)
        return Arrays{maxima[0], head, called("convolution_relu_backward_weights", {in[0], unpooled, y, in[1]})[0]};
      const NDArray masked = called("convolution_relu_backward", {unpooled, y})[0];
      return Arrays{maxima[0], head, called("convolution_backward_weights", {in[0], masked, in[1]})[0]};
    };
    const auto wanted = all_bytes(body(inputs));
    const Graph graph = alive_trace(inputs, body);
    CHECK(nodes_named(with_pooled_convolutions(graph), "convolution_relu_pool_backward") == 0);
    CHECK((all_bytes(Plan(graph).run(inputs)) == wanted));
  }
}

TEST_CASE("Maxima of a pooled convolution stand among others' results where a program wants them", "[graph][pooled]") {
  const PooledNetwork net = k_small.with(true, false);
  const Arrays inputs = net.inputs();
  for (const int axis : {0, 1, 3}) {
    CAPTURE(axis);
    const auto body = [&](const Arrays& in) {
      const NDArray maxima = net(in[0], in[1], in[2]);
      return Arrays{concat({net(in[0] * 2.0, in[1], in[2]), maxima}, axis)};
    };
    Plan plan(alive_trace(inputs, body));
    for (int run = 0; run < 2; ++run)
      CHECK((all_bytes(plan.run(inputs)) == all_bytes(body(inputs))));
  }
}

TEST_CASE("Pooled convolutions of nothing give nothing, and gradients of 0", "[graph][pooled]") {
  for (const auto& [images, outputs] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 4}, {2, 0}, {0, 0}}) {
    CAPTURE(images, outputs);
    const PooledNetwork net = PooledNetwork{{images, 3, 9, 9}, {outputs, 3, 3, 3}}.with(true, true);
    const Arrays inputs = net.inputs();
    const auto body = [&](const Arrays& in) { return net.trained(in); };
    const Graph graph = alive_trace(inputs, body);
    CHECK(nodes_named(with_pooled_convolutions(graph), "convolution_relu_pool_backward") == 1);
    CHECK((all_bytes(Plan(graph).run(inputs)) == all_bytes(body(inputs))));
  }
}
