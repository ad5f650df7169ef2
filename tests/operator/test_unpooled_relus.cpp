// The gradients of a pooling and of the relu in front of it by one kernel, beside the two that it stands for, and the
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

Arrays called(const std::string& name, const Arrays& inputs, const std::string& attributes) {
  const Operator& op = *find_operator(name);
  return invoke(op, inputs, parse_attributes(op, attributes), SourceLocation::current());
}

/// Images whose channels are neighbours in memory.
NDArray channels_last(const NDArray& x) {
  return x.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
}

struct Pooled {
  NDArray y, places;
  std::string windows;

  /// The result of relu, and what pooling says of it.
  Pooled(const NDArray& x, bool last, const std::string& how) : y(relu(x)), windows(how) {
    if (last)
      y = channels_last(y);
    places = called("max_pool2d", {y}, windows)[1];
  }
  Arrays in_two(const NDArray& head) const {
    const NDArray unpooled = called("max_pool2d_backward", {head, places, y}, windows)[0];
    return called("convolution_relu_backward", {unpooled, y}, "bias=true");
  }
  Arrays at_once(const NDArray& head) const { return called("max_pool2d_relu_backward", {head, places, y}, windows); }
};

void check(const Pooled& pooled, const NDArray& head) {
  CAPTURE(pooled.windows, pooled.y.dtype(), pooled.y.shape(), pooled.y.strides(), head.strides());
  CHECK((all_bytes(pooled.at_once(head), true) == all_bytes(pooled.in_two(head), true)));
}

const char* const k_windows[] = {
    "",
    "kernel=(3, 3), stride=(2, 2)",
    "kernel=(3, 2), stride=(1, 1), pad=(1, 1)",
    "kernel=(2, 2), stride=(3, 3)",
    "kernel=(3, 3), stride=(2, 2), ceil_mode=true"};

void check_windows(DType dtype, Device device, std::int64_t channels) {
  const NDArray x = random_array({3, channels, 11, 9}, 1, -1, 1, dtype, device);
  for (const char* const windows : k_windows) {
    for (const bool last : {true, false}) {
      const Pooled pooled(x, last, windows);
      const NDArray head = random_array(pooled.places.shape(), 2, -1, 1, dtype, device);
      check(pooled, head);
      check(pooled, channels_last(head));
      check(pooled, head.slice(0, 0, 1).broadcast_to(head.shape()));
    }
  }
}

std::int64_t count(const Graph& graph, const std::string& op) {
  return std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == op; });
}

using Between = std::function<NDArray(const NDArray&)>;

/// Gradients of x, the filters and their bias through convolution, relu, pooling and a layer of units.
Arrays network(const Arrays& given, const Between& between = {}) {
  Arrays in;
  for (const NDArray& each : given) {
    in.push_back(each.detach());
    in.back().attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    NDArray made = convolution(in[0], in[1], in[2], {.activation = "relu"});
    if (between)
      made = between(made);
    y = dense(max_pool2d(made, {}), in[3], {});
  }
  Arrays gradients;
  for (const NDArray& gradient : autograd::grad({&y, 1}, in, {}))
    gradients.push_back(gradient);
  return gradients;
}

Arrays draw(DType dtype, Device device) {
  return {
      random_array({4, 3, 10, 10}, 1, -1, 1, dtype, device),
      random_array({8, 3, 3, 3}, 2, -0.5, 0.5, dtype, device),
      random_array({8}, 3, -1, 1, dtype, device),
      random_array({5, 8 * 4 * 4}, 4, -0.2, 0.2, dtype, device)};
}

Graph traced(const Arrays& like, const std::function<Arrays(const Arrays&)>& f) {
  Tracer tracer;
  Arrays inputs;
  for (const NDArray& each : like)
    inputs.push_back(tracer.input({each.shape(), each.dtype(), each.device()}));
  return tracer.trace([&] { return f(inputs); });
}

}  // namespace

TEST_CASE("Gradients of a pooling and of relu by one kernel are those by two", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, bfloat16, float16, float64}) {
    for (const std::int64_t channels : {8, 64, 6, 1})
      check_windows(dtype, gpu(), channels);
  }
  // As many rows as take several rounds of a block.
  const NDArray x = random_array({9, 16, 130, 120}, 3, -1, 1, float32, gpu());
  const Pooled pooled(x, true, "");
  check(pooled, random_array(pooled.places.shape(), 4, -1, 1, float32, gpu()));
}

TEST_CASE("Gradients of a pooling and of relu at once on a CPU are those by two calls") {
  for (const DType dtype : {float32, bfloat16, float64})
    check_windows(dtype, cpu(), 6);
}

TEST_CASE("NaN, infinities and signed zeros go through relu and pooling as by two kernels", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const double special : {inf, -inf, std::nan(""), -0.0}) {
    for (const bool in_head : {false, true}) {
      NDArray x = random_array({2, 8, 6, 6}, 1, -1, 1), head = random_array({2, 8, 3, 3}, 2, -1, 1);
      (in_head ? head : x).slice(2, 1, 2).slice(1, 3, 5).assign(special);
      check(Pooled(x.to(gpu()), true, ""), head.to(gpu()));
    }
  }
}

TEST_CASE("What cannot be the gradient of a pooling behind relu is refused with its shapes", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Device device : {cpu(), gpu()}) {
    const Pooled pooled(random_array({2, 8, 6, 6}, 1, -1, 1, float32, device), true, "");
    CHECK_THROWS_AS(pooled.at_once(zeros({2, 8, 3, 2}, {.device = device})), ShapeError);
    CHECK_THROWS_AS(pooled.at_once(zeros({2, 8, 3, 3}, {.dtype = float16, .device = device})), DTypeError);
    const NDArray none = zeros({0, 8, 3, 3}, {.device = device}), of = zeros({0, 8, 6, 6}, {.device = device});
    const Arrays nothing =
        called("max_pool2d_relu_backward", {none, zeros({0, 8, 3, 3}, {.dtype = int32, .device = device}), of}, "");
    CHECK(nothing[0].shape() == Shape{0, 8, 6, 6});
    CHECK(nothing[1].to_vector<float>() == std::vector<float>(8));
  }
}

TEST_CASE("A convolution with relu and a pooling is by a plan what it is by hand", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, bfloat16}) {
    CAPTURE(dtype);
    const Arrays given = draw(dtype, gpu());
    graph::Plan plan(traced(given, [](const Arrays& in) { return network(in); }));
    CHECK(count(plan.graph(), "max_pool2d_relu_backward") == 1);
    CHECK(count(plan.graph(), "max_pool2d_backward") == 0);
    const auto wanted = all_bytes(network(given));
    for (int run = 0; run < 2; ++run)
      CHECK((all_bytes(plan.run(given)) == wanted));
  }
}

TEST_CASE("The gradient of a pooling stays apart where others read it or write what it reads", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto joined = [](const Graph& graph) {
    const Graph made = with_unpooled_relus(without_dead_code(graph));
    verify(made);
    return count(made, "max_pool2d_relu_backward");
  };
  const auto whole = [](const Arrays& in) { return network(in); };
  CHECK(joined(traced(draw(float32, gpu()), whole)) == 1);
  CHECK(joined(traced(draw(float32, cpu()), whole)) == 0);
  const auto behind = [](const Arrays& in) { return network(in, [](const NDArray& y) { return y * 2.0; }); };
  CHECK(joined(traced(draw(float32, gpu()), behind)) == 0);
  const Pooled pooled(random_array({2, 8, 6, 6}, 1, -1, 1, float32, gpu()), false, "");
  enum class Also { nothing, reads, gives, writes };
  const auto with = [&](Also also) {
    const Arrays like{pooled.places.astype(float32), pooled.y, pooled.places};
    return joined(traced(like, [&](const Arrays& in) {
      const NDArray head = in[0] + 1.0;
      const NDArray unpooled = called("max_pool2d_backward", {head, in[2], in[1]}, "")[0];
      if (also == Also::writes)
        NDArray(head) += 1.0;
      Arrays made = called("convolution_relu_backward", {unpooled, in[1]}, "bias=true");
      if (also == Also::reads)
        made.push_back(unpooled + 1.0);
      if (also == Also::gives)
        made.push_back(unpooled);
      if (also == Also::writes)  // which nobody would see otherwise
        made.push_back(head);
      return made;
    }));
  };
  CHECK(with(Also::nothing) == 1);
  CHECK(with(Also::reads) == 0);
  CHECK(with(Also::gives) == 0);
  CHECK(with(Also::writes) == 0);
}

TEST_CASE("Gradients of a pooling and of relu at once count what the two counted", "[graph][flops]") {
  const Pooled pooled(random_array({2, 8, 6, 6}, 1, -1, 1), false, "");
  const Arrays like{pooled.places.astype(float32), pooled.places, pooled.y};
  const std::int64_t at_once =
      flops(traced(like, [](const Arrays& in) { return called("max_pool2d_relu_backward", in, ""); }));
  CHECK(at_once == flops(traced(like, [](const Arrays& in) {
          const NDArray unpooled = called("max_pool2d_backward", in, "")[0];
          return called("convolution_relu_backward", {unpooled, in[2]}, "bias=true");
        })));
}
