// The pass that gives convolutions what follows them: what it takes, what it must not, and how results are rounded.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Rounding;
using graph::Tracer;

namespace {

using Names = std::vector<std::string>;

Names names_of(const Graph& graph) {
  Names names;
  for (const graph::Node& node : graph.nodes)
    names.emplace_back(node.op->name);
  return names;
}

std::int64_t count(const Graph& graph, const std::string& name) {
  const Names names = names_of(graph);
  return std::count(names.begin(), names.end(), name);
}

template <class Body>
Graph traced(const Arrays& inputs, const Body& body) {
  Tracer tracer;
  Arrays given;
  for (const NDArray& input : inputs)
    given.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  return without_dead_code(tracer.trace([&] { return body(given); }));
}

/// As by hand the same bits; rounded once close to `wanted`. Returns the graph of the latter, after this pass alone.
template <class Body>
Graph check(const Arrays& inputs, const Arrays& wanted, Tolerance tolerance, const Body& body) {
  const Graph graph = traced(inputs, body);
  const auto by_hand = all_bytes(body(inputs));
  Plan same(graph);
  const Graph made = with_epilogues(graph, Rounding::once);
  verify(made);
  Plan once(graph, {.rounding = Rounding::once});
  for (int run = 0; run < 2; ++run) {
    CHECK((all_bytes(same.run(inputs)) == by_hand));
    const Arrays results = once.run(inputs);
    for (std::size_t i = 0; i < results.size(); ++i)
      CHECK(differences(results[i].to(cpu()), wanted[i].to(cpu()), tolerance) == "");
  }
  return made;
}
template <class Body>
Graph check(const Arrays& inputs, const Body& body) {
  return check(inputs, body(inputs), sum_tolerance(inputs[0].dtype()), body);
}

/// Weights of a block with a shortcut, in `dtype`, statistics in float32 beside half types.
struct Weights {
  NDArray first, second, shortcut, bias;
  std::vector<NDArray> norms[3];

  Weights(std::int64_t in, std::int64_t out, DType dtype, Device device) {
    const DType wide = dtype == float64 ? float64 : float32;
    std::uint64_t seed = 1;
    const auto draw = [&](const Shape& shape, DType type, double low = -1) {
      return random_array(shape, seed++, low, 1, type).to(device);
    };
    first = draw({out, in, 3, 3}, dtype) * 0.3;
    second = draw({out, out, 3, 3}, dtype) * 0.2;
    shortcut = draw({out, in, 1, 1}, dtype);
    bias = draw({out}, dtype);
    for (auto& norm : norms)
      norm = {draw({out}, wide), draw({out}, wide), draw({out}, wide), draw({out}, wide, 0.5)};
  }
  Weights as(DType dtype) const {
    Weights other = *this;
    for (NDArray* each : {&other.first, &other.second, &other.shortcut, &other.bias})
      *each = each->to(cpu()).astype(dtype);
    for (auto& norm : other.norms) {
      for (NDArray& each : norm)
        each = each.to(cpu()).astype(dtype);
    }
    return other;
  }
  NDArray normed(int which, const NDArray& x) const {
    const auto& p = norms[which];
    return batch_norm(x, p[0], p[1], p[2], p[3]);
  }
  /// A residual block; the second convolution has a bias.
  NDArray operator()(const NDArray& x) const {
    const NDArray hidden = relu(normed(0, convolution(x, first, {}, {.stride = {2, 2}, .pad = {1, 1}})));
    const NDArray side = normed(1, convolution(x, shortcut, {}, {.stride = {2, 2}}));
    return relu(normed(2, convolution(hidden, second, bias, {.pad = {1, 1}})) + side);
  }
};

/// Small numbers, always the same ones.
class Random {
 public:
  explicit Random(int seed) : state_(static_cast<std::uint32_t>(seed) * 2654435761u + 1) {}
  std::int64_t operator()(std::uint32_t below) {
    state_ = state_ * 1664525u + 1013904223u;
    return (state_ >> 10) % below;
  }

 private:
  std::uint32_t state_;
};

NDArray draw(const Shape& shape, std::uint64_t seed, double low = -1) {
  return random_array(shape, seed, low, 1);
}

void check_block(Device device) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    CAPTURE(dtype);
    const Weights weights(8, 16, dtype, device);
    const Weights exact = weights.as(float64);
    const NDArray x = random_array({2, 8, 7, 6}, 40, -1, 1, dtype).to(device);
    const Tolerance one = sum_tolerance(dtype);
    // Sums of sums: of several roundings.
    const Graph made =
        check({x}, {exact(x.to(cpu()).astype(float64))}, {4 * one.relative, 4 * one.absolute}, [&](const Arrays& in) {
          return Arrays{weights(in[0])};
        });
    CHECK(made.nodes.size() == 6);
    CHECK(count(made, "convolution_fused") == 3);
    CHECK(count(made, "batch_norm_fold") == 3);
  }
}

void check_bias_and_relu(Device device) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const std::int64_t channels : {3, 8, 17}) {
      CAPTURE(dtype, channels);
      const NDArray w = random_array({16, channels, 3, 3}, 2, -1, 1, dtype).to(device);
      const NDArray bias = random_array({16}, 3, -1, 1, dtype).to(device);
      NDArray x = random_array({2, channels, 6, 5}, 1, -1, 1, dtype);
      x.slice(2, 0, 1).slice(3, 0, 1).assign(NAN);
      const auto body = [&](const Arrays& in) {
        return Arrays{relu(convolution(in[0], w, bias)), relu(convolution(in[0], w, {}))};
      };
      x = x.to(device);
      const Graph made = check({x}, body);
      CHECK(count(made, "convolution_fused") == (device.is_gpu() && channels > 4 ? 2 : 0));
      const Graph same = with_epilogues(traced({x}, body), Rounding::as_by_hand);
      CHECK(names_of(same) == Names{"convolution_relu", "convolution", "relu"});
    }
  }
}

}  // namespace

TEST_CASE("A residual block is three calls, rounded once each", "[graph][epilogue]") {
  check_block(cpu());
}
TEST_CASE("A residual block is three calls on a GPU, rounded once each", "[graph][epilogue][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_block(gpu());
}
TEST_CASE("A relu behind a bias goes along with its convolution, to the last bit", "[graph][epilogue]") {
  check_bias_and_relu(cpu());
}
TEST_CASE("A relu behind a bias goes along with its convolution on a GPU, to the last bit", "[graph][epilogue][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_bias_and_relu(gpu());
}

TEST_CASE("First layers on a GPU take bias and relu along as they are", "[graph][epilogue]") {
  SLUICE_NEEDS_GPU_KERNELS();
  for (const std::int64_t channels : {1, 4, 5}) {  // 5 x 3 x 3 products are more than our kernel sums
    CAPTURE(channels);
    Tracer tracer;
    const NDArray x = tracer.input({{2, channels, 6, 5}, float32, gpu(0)}),
                  w = tracer.input({{16, channels, 3, 3}, float32, gpu(0)}),
                  bias = tracer.input({{16}, float32, gpu(0)});
    const Graph graph = tracer.trace([&] { return Arrays{relu(convolution(x, w, bias)), convolution(x, w, bias)}; });
    const Names made = names_of(with_epilogues(without_dead_code(graph), Rounding::once));
    CHECK(
        made ==
        (channels > 4 ? Names{"convolution_fused", "convolution_fused"} : Names{"convolution_relu", "convolution"}));
  }
}

TEST_CASE("Infinity and NaN pass what was made of several calls", "[graph][epilogue]") {
  Weights weights(8, 8, float32, cpu());
  std::vector<float> x = random_array({1, 8, 7, 7}, 4, -1, 1).to_vector<float>();
  x[3] = NAN;
  x[100] = INFINITY;
  x[300] = -INFINITY;
  check({array(x, {1, 8, 7, 7})}, [&](const Arrays& in) { return Arrays{weights(in[0])}; });
}

TEST_CASE("What others read, broadcast or write stays a call of its own", "[graph][epilogue]") {
  const Weights weights(4, 4, float32, cpu());
  const NDArray x = random_array({2, 4, 5, 5}, 1, -1, 1), y = random_array({2, 4, 5, 5}, 2, -1, 1);
  const ConvolutionOptions same{.pad = {1, 1}};
  const auto convolved = [&](const NDArray& of) { return convolution(of, weights.first, {}, same); };
  const auto fused = [&](const Arrays& inputs, const auto& body) {
    return count(check(inputs, body), "convolution_fused");
  };
  CHECK(fused({x, y}, [&](const Arrays& in) { return Arrays{convolved(in[0]) + in[1]}; }) == 1);
  CHECK(fused({x, y}, [&](const Arrays& in) { return Arrays{in[1] + convolved(in[0])}; }) == 1);
  // The sum with itself, with one that is broadcast, with another type, of a view.
  CHECK(fused({x}, [&](const Arrays& in) {
          const NDArray once = convolved(in[0]);
          return Arrays{once + once};
        }) == 0);
  CHECK(fused({x, y}, [&](const Arrays& in) { return Arrays{convolved(in[0]) + in[1].slice(0, 0, 1)}; }) == 0);
  CHECK(fused({x}, [&](const Arrays& in) { return Arrays{convolved(in[0]) + 2.0}; }) == 0);
  CHECK(fused({x, y.astype(float64)}, [&](const Arrays& in) { return Arrays{convolved(in[0]) + in[1]}; }) == 0);
  CHECK(fused({x, y}, [&](const Arrays& in) {
          return Arrays{convolved(in[0]).reshape({200}) + in[1].reshape({200})};
        }) == 0);
  // Wanted, or read once more; what came before it is taken all the same.
  CHECK(fused({x, y}, [&](const Arrays& in) {
          const NDArray once = convolved(in[0]);
          return Arrays{once, once + in[1]};
        }) == 0);
  CHECK(fused({x, y}, [&](const Arrays& in) {
          const NDArray normed = weights.normed(0, convolved(in[0]));
          return Arrays{relu(normed), normed + in[1]};
        }) == 1);
  // Statistics of the batch, and of another axis.
  const auto& p = weights.norms[0];
  CHECK(fused({x.slice(3, 0, 4).copy()}, [&](const Arrays& in) {
          return Arrays{batch_norm(convolved(in[0]), p[0], p[1], p[2], p[3], {.axis = 3})};
        }) == 0);
  CHECK(fused({x}, [&](const Arrays& in) {
          const autograd::TrainScope train;
          return Arrays{batch_norm(convolved(in[0]), p[0], p[1], p[2].copy(), p[3].copy())};
        }) == 0);
  // An operand is written before what follows the convolution runs; behind it that does not matter.
  for (const bool before : {true, false}) {
    CHECK(fused({x, y}, [&](const Arrays& in) {
            NDArray a = in[0].copy();
            const NDArray once = convolved(a);
            if (before)
              a += 1.0;
            const NDArray added = once + in[1];
            if (!before)
              a += 1.0;
            return Arrays{added, a};
          }) == (before ? 0 : 1));
  }
  // Written where the other operand was.
  CHECK(fused({x, y}, [&](const Arrays& in) {
          NDArray into = in[1].copy();
          into += convolved(in[0]);
          return Arrays{into};
        }) == 0);
}

TEST_CASE("A sum of two convolutions takes one of them along", "[graph][epilogue]") {
  const Weights weights(4, 4, float32, cpu());
  const NDArray x = random_array({2, 4, 5, 5}, 1, -1, 1);
  const Graph made = check({x}, [&](const Arrays& in) {
    return Arrays{relu(convolution(in[0], weights.first, {}) + convolution(in[0], weights.second, {}))};
  });
  CHECK(count(made, "convolution_fused") == 1);
  CHECK(count(made, "convolution") == 1);
  CHECK(made.nodes.size() == 2);
}

TEST_CASE("Whatever follows a convolution, in random shapes and orders, it is what it was", "[graph][epilogue]") {
  std::int64_t fused = 0;
  for (int seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t groups = random(3) == 0 ? 2 : 1, channels = groups * (1 + random(4));
    const ConvolutionOptions options{
        .stride = {1 + random(2), 1 + random(2)},
        .pad = {random(3), random(3)},
        .dilation = {1 + random(2), 1 + random(2)},
        .groups = groups};
    const NDArray x = draw({1 + random(2), channels, 7 + random(4), 7}, seed);
    const NDArray w = draw({groups * (1 + random(4)), channels / groups, 1 + random(3), 3}, seed + 1);
    const bool bias = random(2) == 0;
    std::vector<std::int64_t> then;
    for (std::int64_t left = random(5); left > 0; --left)
      then.push_back(random(6));
    const auto body = [&](const Arrays& in) {
      const std::int64_t made = w.shape()[0];
      NDArray y = convolution(in[0], w, bias ? draw({made}, 3) : NDArray(), options);
      const NDArray first = y;
      std::uint64_t number = 10;
      for (const std::int64_t what : then) {
        const NDArray along = draw({made}, number++), high = draw({made}, number++, 0.5);
        if (what == 0)
          y = batch_norm(y, along, high, draw({made}, number++), high);
        else if (what <= 2)
          y = what == 1 ? y + draw(y.shape(), number++) : draw(y.shape(), number++) + y;
        else if (what == 3)
          y = y + draw({1, made, 1, 1}, number++);
        else if (what == 4)
          y = relu(y);
        else
          y = y + first;
      }
      return Arrays{y};
    };
    fused += count(check({x}, body(Arrays{x}), {1e-4, 1e-4}, body), "convolution_fused");
  }
  CHECK(fused > 15);
}
