// Convolutions of few terms: which a kernel of ours takes on a GPU, and that it gives what a CPU gives.
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/conv/passes.h>
#include <sluice/operator/conv/shallow.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/with_tf32.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::ConvolutionAttributes;
using sluice::detail::ConvolutionPass;
using sluice::detail::is_shallow;

namespace {

struct Case {
  Shape x, weight;
  ConvolutionOptions options = {};
};

// Tiles of pixels and channels that end early, several images a tile, all numbers of terms a thread may have and the
// most there are, strides, pads on one side, dilations.
const std::vector<Case> k_cases = {
    {{3, 1, 12, 11}, {32, 1, 3, 3}},
    {{2, 1, 9, 9}, {34, 1, 3, 3}, {.pad = {1, 1}}},
    {{1, 3, 14, 13}, {6, 3, 3, 3}, {.stride = {2, 2}, .pad = {1, 0}}},
    {{9, 2, 5, 4}, {3, 2, 3, 2}, {.dilation = {2, 1}}},
    {{2, 4, 7, 7}, {8, 4, 3, 3}, {.pad = {0, 1, 2, 0}}},
    {{130, 3, 1, 1}, {5, 3, 1, 1}},
    {{1, 1, 8, 8}, {1, 1, 6, 6}, {.stride = {1, 2}}},
    {{1, 1, 40, 36}, {64, 1, 5, 5}, {.pad = {2, 2}}}};

sluice::detail::ConvolutionGeometry geometry(const Shape& x, const Shape& weight, DType dtype = float32) {
  return sluice::detail::convolution_geometry("test", x, weight, dtype, {});
}

NDArray channels_last(const NDArray& x) {
  return x.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
}

// Multiples of 1/8 whose sums float32 does not round, so that relu's kinks are the same everywhere.
NDArray eighths(const Shape& shape, std::uint64_t seed, DType dtype) {
  return (random_array(shape, seed, -4, 5, int32).astype(float32) * 0.125).astype(dtype);
}

struct Layout {
  bool wants_data = false, last = false;
};

// The result and the gradients of weight and bias, and of x where it is wanted.
std::vector<NDArray> results_on(
    Device device, const std::vector<NDArray>& inputs, const ConvolutionOptions& options, Layout layout = {}) {
  std::vector<NDArray> v;
  for (const NDArray& input : inputs)
    v.push_back((layout.last && input.ndim() == 4 ? channels_last(input.to(device)) : input.to(device)).detach());
  for (std::size_t i = layout.wants_data ? 0 : 1; i < v.size(); ++i)
    v[i].attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = convolution(v[0], v[1], v.size() > 2 ? v[2] : NDArray(), options);
  }
  const NDArray head = eighths(y.shape(), 9, y.dtype()).to(device);
  y.backward(layout.last ? channels_last(head) : head);
  std::vector<NDArray> results{y};
  for (std::size_t i = layout.wants_data ? 0 : 1; i < v.size(); ++i)
    results.push_back(v[i].grad());
  return results;
}

}  // namespace

TEST_CASE("Shallow convolutions are those of few input channels, few terms and few products") {
  for (const auto pass : {ConvolutionPass::forward, ConvolutionPass::backward_weights}) {
    CHECK(is_shallow(geometry({64, 1, 28, 28}, {32, 1, 3, 3}), pass));
    CHECK(is_shallow(geometry({64, 4, 28, 28}, {32, 4, 3, 3}), pass));
    CHECK(is_shallow(geometry({64, 1, 28, 28}, {32, 1, 6, 6}), pass));
    CHECK(!is_shallow(geometry({64, 1, 28, 28}, {32, 1, 6, 7}), pass));
    CHECK(!is_shallow(geometry({64, 5, 28, 28}, {32, 5, 1, 1}), pass));
    const auto large = [&](DType dtype) { return is_shallow(geometry({128, 3, 64, 64}, {64, 3, 3, 3}, dtype), pass); };
    CHECK(large(float32));
    CHECK(large(bfloat16) == (pass == ConvolutionPass::forward));
    CHECK(!is_shallow(geometry({0, 1, 28, 28}, {32, 1, 3, 3}), pass));
    CHECK(!is_shallow(geometry({1, 1, 1, 1}, {4097, 1, 1, 1}), pass));
    const ConvolutionAttributes grouped{.groups = 2}, wide{.pad = {1 << 17, 0}, .dilation = {1 << 17, 1}};
    CHECK(
        !is_shallow(sluice::detail::convolution_geometry("test", {1, 2, 9, 9}, {4, 1, 3, 3}, float32, grouped), pass));
    CHECK(!is_shallow(sluice::detail::convolution_geometry("test", {1, 2, 9, 9}, {4, 2, 3, 3}, float32, wide), pass));
  }
  CHECK(!is_shallow(geometry({64, 1, 28, 28}, {32, 1, 3, 3}), ConvolutionPass::backward_data));
}

TEST_CASE("Shallow convolutions on a GPU are the CPU's, with and without bias, relu and the data's gradient", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_heavy_dtypes) {
    for (const Case& c : k_cases) {
      for (const bool relu : {false, true}) {
        for (const bool bias : {false, true}) {
          CAPTURE(name_of(dtype), to_string(c.x), to_string(c.weight), relu, bias);
          ConvolutionOptions options = c.options;
          options.activation = relu ? "relu" : "";
          std::vector<NDArray> inputs{eighths(c.x, 1, dtype), eighths(c.weight, 2, dtype)};
          if (bias)
            inputs.push_back(eighths({c.weight[0]}, 3, dtype));
          const Layout layout{.wants_data = relu && !bias, .last = bias};
          const auto want = results_on(cpu(), inputs, options, layout);
          const auto got = results_on(gpu(), inputs, options, layout),
                     again = results_on(gpu(), inputs, options, layout);
          REQUIRE(got.size() == want.size());
          for (std::size_t i = 0; i < want.size(); ++i) {
            CAPTURE(i);
            CHECK(differences(got[i].to(cpu()), want[i], sum_tolerance(dtype)) == "");
            CHECK(differences(again[i].to(cpu()), got[i].to(cpu()), {0, 0}) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("Where tensor cores may be used a shallow convolution gives channels as neighbours, exactly", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  std::vector<Case> cases = k_cases;
  cases.push_back({{16, 1, 60, 59}, {8, 1, 2, 2}});  // more tiles than blocks
  for (const Case& c : cases) {
    if (c.weight[0] % 4 != 0)
      continue;
    CAPTURE(to_string(c.x), to_string(c.weight));
    ConvolutionOptions options = c.options;
    options.activation = "relu";
    const std::vector<NDArray> inputs{random_array(c.x, 1), random_array(c.weight, 2), random_array({c.weight[0]}, 3)};
    for (const bool last : {false, true}) {
      const auto got = results_on(gpu(), inputs, options, {.last = last});
      CHECK(
          sluice::detail::order_of(got[0].shape(), got[0].strides()) ==
          (got[0].shape()[2] > 1 ? MemoryOrder::channels_last : MemoryOrder::row_major));
      const auto want = results_on(cpu(), inputs, options);
      for (std::size_t i = 0; i < want.size(); ++i) {
        CAPTURE(last, i);
        CHECK(differences(got[i].to(cpu()), want[i], {1e-5, 4e-5}) == "");
      }
    }
  }
}

TEST_CASE("A head that is stretched or turned gives the same gradients of a shallow convolution", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = eighths({3, 1, 9, 9}, 1, float32), w = eighths({8, 1, 3, 3}, 2, float32);
  for (const bool turned : {false, true}) {
    std::vector<NDArray> grads;
    for (const Device device : {cpu(), gpu()}) {
      NDArray weight = w.to(device).detach();
      weight.attach_grad();
      NDArray y;
      {
        const autograd::RecordScope record;
        y = convolution(x.to(device), weight, {}, {.activation = "relu"});
      }
      const NDArray head = eighths(turned ? Shape{7, 7, 8, 3} : Shape{1, 8, 1, 1}, 3, float32).to(device);
      y.backward(turned ? head.transpose() : head.broadcast_to(y.shape()));
      grads.push_back(weight.grad().to(cpu()));
    }
    CHECK(differences(grads[1], grads[0], {1e-6, 1e-6}) == "");
  }
}

TEST_CASE("NaN and infinity pass through a shallow convolution, and relu's mask lets NaN's head through", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : k_heavy_dtypes) {
    for (const double special : {static_cast<double>(NAN), infinity, -infinity}) {
      CAPTURE(name_of(dtype), special);
      NDArray x = eighths({2, 1, 8, 8}, 1, float32).astype(dtype);
      x.slice(0, 0, 1).slice(2, 3, 4).slice(3, 3, 4).assign(special);
      const std::vector<NDArray> inputs{x, eighths({8, 1, 3, 3}, 2, dtype), eighths({8}, 3, dtype)};
      const ConvolutionOptions options{.pad = {1, 1}, .activation = "relu"};
      for (const bool last : {false, true}) {
        const auto want = results_on(cpu(), inputs, options), got = results_on(gpu(), inputs, options, {.last = last});
        for (std::size_t i = 0; i < want.size(); ++i) {
          CAPTURE(last, i);
          CHECK(differences(got[i].to(cpu()), want[i], sum_tolerance(dtype)) == "");
        }
      }
    }
  }
}

TEST_CASE("The gradients of weights with relu's mask are those in two steps, and have gradients") {
  for (const DType dtype : k_heavy_dtypes) {
    for (const Case& c : k_cases) {
      CAPTURE(name_of(dtype), to_string(c.x), to_string(c.weight));
      ConvolutionAttributes how{
          .stride = c.options.stride, .pad = c.options.pad, .dilation = c.options.dilation, .bias = true};
      const NDArray x = eighths(c.x, 1, dtype), w = eighths(c.weight, 2, dtype);
      const NDArray y = relu(sluice::detail::convolution_forward(x, w, {}, how));
      const NDArray dy = eighths(y.shape(), 3, dtype);
      const Arrays got = invoke(
          sluice::detail::convolution_relu_backward_weights_op,
          std::vector<NDArray>{x, dy, y, w},
          Attributes::of(how),
          SourceLocation::current());
      const NDArray masked = where(y > 0, dy, zeros_like(dy));
      const Arrays want =
          sluice::detail::convolution_backward_weights(x, masked, how, {w.shape(), w.dtype(), w.device()}, true);
      REQUIRE(got.size() == 2);
      for (int i = 0; i < 2; ++i)
        CHECK(differences(got[i], want[i], sum_tolerance(dtype)) == "");
    }
  }
  const ConvolutionAttributes how{.stride = {2, 1}, .pad = {1, 0}, .bias = true};
  const NDArray y = relu(random_array({2, 3, 2, 3}, 5, -1, 1, float64)), w = zeros({3, 2, 3, 3}, {.dtype = float64});
  const std::vector<NDArray> inputs{
      random_array({2, 2, 4, 5}, 1, -1, 1, float64), random_array(y.shape(), 2, -1, 1, float64)};
  for (const int output : {0, 1}) {
    const auto f = [&](const auto& v) {
      return invoke(
          sluice::detail::convolution_relu_backward_weights_op,
          std::vector<NDArray>{v[0], v[1], y, w},
          Attributes::of(how),
          SourceLocation::current())[output];
    };
    CHECK(gradient_differences(f, inputs) == "");
  }
  CHECK_THROWS_AS(
      invoke(
          sluice::detail::convolution_relu_backward_weights_op,
          std::vector<NDArray>{inputs[0], inputs[1], y.slice(0, 0, 1), w},
          Attributes::of(how),
          SourceLocation::current()),
      ShapeError);
}

TEST_CASE("A second gradient through a shallow convolution with relu is the CPU's", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  std::vector<NDArray> results;
  for (const Device device : {cpu(), gpu()}) {
    NDArray w = eighths({4, 1, 3, 3}, 2, float64).to(device).detach();
    w.attach_grad();
    const NDArray x = eighths({2, 1, 6, 6}, 1, float64).to(device);
    const autograd::RecordScope record;
    const NDArray y = convolution(x, w, {}, {.activation = "relu"});
    const std::vector<NDArray> heads{sum(y * y)}, variables{w};
    const NDArray first = autograd::grad(heads, variables, {}, {.create_graph = true})[0];
    sum(first * first).backward();
    results.push_back(w.grad().to(cpu()));
  }
  CHECK(differences(results[1], results[0], {1e-10, 1e-10}) == "");
}
