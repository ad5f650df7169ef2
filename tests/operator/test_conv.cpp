#include <thread>

#include <sluice/operator/conv/geometry.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/run_kernel.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Case {
  Shape x, weight;
  ConvolutionOptions options = {};
};

// Strides, pads, dilations, groups, odd sizes, one image, kernels of one and of unequal sides.
const std::vector<Case> k_cases = {
    {{2, 3, 7, 6}, {4, 3, 3, 3}},
    {{1, 1, 5, 5}, {2, 1, 3, 3}, {.pad = {1, 1}}},
    {{2, 4, 9, 8}, {6, 4, 3, 2}, {.stride = {2, 3}, .pad = {1, 2}}},
    {{1, 2, 11, 9}, {3, 2, 3, 3}, {.stride = {1, 2}, .pad = {2, 0}, .dilation = {2, 3}}},
    {{3, 4, 6, 6}, {6, 2, 3, 3}, {.pad = {1, 1}, .groups = 2}},
    {{2, 6, 7, 5}, {6, 1, 3, 3}, {.stride = {2, 1}, .pad = {1, 1}, .groups = 6}},
    {{2, 8, 5, 5}, {4, 8, 1, 1}},
    {{2, 3, 5, 7}, {5, 3, 1, 1}, {.stride = {2, 2}, .pad = {1, 0}}},
    {{1, 3, 4, 13}, {2, 3, 4, 5}},
    {{2, 17, 6, 6}, {33, 17, 3, 3}, {.pad = {1, 1}}},
};

NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_array(shape, seed, -1, 1, dtype);
}

NDArray bias_of(const Case& c, DType dtype) {
  return draw({c.weight[0]}, 3, dtype);
}

}  // namespace

TEST_CASE("convolution agrees with plain loops for every type, stride, pad, dilation and group") {
  for (const Case& c : k_cases) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype));
      const NDArray x = draw(c.x, 1, dtype), w = draw(c.weight, 2, dtype), bias = bias_of(c, dtype);
      const NDArray want = reference_convolution(x, w, bias, c.options);
      CHECK(differences(convolution(x, w, bias, c.options), want, sum_tolerance(dtype)) == "");
    }
  }
}

TEST_CASE("convolution with relu is relu of convolution, in its gradients too, and NaN passes") {
  for (const Case& c : k_cases) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype));
      ConvolutionOptions fused = c.options;
      fused.activation = "relu";
      std::vector<std::vector<NDArray>> results;
      for (const bool whole : {true, false}) {
        std::vector<NDArray> v{draw(c.x, 1, dtype), draw(c.weight, 2, dtype), bias_of(c, dtype)};
        for (NDArray& variable : v)
          variable.attach_grad();
        NDArray y;
        {
          const autograd::RecordScope record;
          y = whole ? convolution(v[0], v[1], v[2], fused) : relu(convolution(v[0], v[1], v[2], c.options));
        }
        y.backward(draw(y.shape(), 4, dtype));
        results.push_back({y, v[0].grad(), v[1].grad(), v[2].grad()});
      }
      for (std::size_t i = 0; i < 4; ++i)
        CHECK(differences(results[0][i], results[1][i], sum_tolerance(dtype)) == "");
    }
  }
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    CAPTURE(name_of(target));
    NDArray x = ones({1, 4, 6, 6});
    x.slice(2, 0, 1).assign(NAN);
    const NDArray y = convolution(x, ones({4, 4, 3, 3}), {}, {.activation = "relu"});
    CHECK(sum(isnan(y)).item<std::int64_t>() == 16);
  }
}

TEST_CASE("convolution without a bias, of no images, of views") {
  const NDArray x = draw({2, 3, 8, 8}, 1, float32), w = draw({4, 3, 3, 3}, 2, float32);
  CHECK(differences(convolution(x, w, {}), reference_convolution(x, w, {}, {}), sum_tolerance(float32)) == "");
  CHECK(convolution(zeros({0, 3, 8, 8}), w, {}).shape() == Shape{0, 4, 6, 6});
  const NDArray view = draw({8, 8, 3, 2}, 4, float32).transpose();
  CHECK(differences(convolution(view, w, {}), reference_convolution(view, w, {}, {}), sum_tolerance(float32)) == "");
}

TEST_CASE("The gradients of convolution agree with finite differences") {
  for (const Case& c : k_cases) {
    if (c.x.size() > 400)
      continue;
    CAPTURE(to_string(c.x), to_string(c.weight));
    const std::vector<NDArray> inputs{draw(c.x, 1, float64), draw(c.weight, 2, float64), bias_of(c, float64)};
    const auto f = [&](const auto& v) { return convolution(v[0], v[1], v[2], c.options); };
    CHECK(gradient_differences(f, inputs) == "");
  }
}

TEST_CASE("The float32 gradients of convolution agree with the float64 ones") {
  for (const Case& c : k_cases) {
    CAPTURE(to_string(c.x), to_string(c.weight));
    std::vector<std::vector<NDArray>> grads;
    for (const DType dtype : {float64, float32, float16, bfloat16}) {
      // The same numbers in every type: those that bfloat16 can hold.
      std::vector<NDArray> v{draw(c.x, 1, bfloat16), draw(c.weight, 2, bfloat16), bias_of(c, bfloat16)};
      for (NDArray& variable : v) {
        variable = variable.astype(dtype);
        variable.attach_grad();
      }
      NDArray y;
      {
        const autograd::RecordScope record;
        y = convolution(v[0], v[1], v[2], c.options);
      }
      y.backward(draw(y.shape(), 5, bfloat16).astype(dtype));
      grads.push_back({v[0].grad(), v[1].grad(), v[2].grad()});
      for (int k = 0; k < 3; ++k) {
        const Tolerance t = sum_tolerance(dtype);
        CHECK(differences(grads.back()[k], grads[0][k], {t.relative, 4 * t.absolute}) == "");
      }
    }
  }
}

TEST_CASE("The passes of a convolution are each other's gradients") {
  const ConvolutionOptions options{.stride = {2, 1}, .pad = {1, 1}, .groups = 2};
  const std::vector<NDArray> inputs{draw({1, 4, 3, 5}, 1, float64), draw({1, 4, 5, 5}, 2, float64)};
  const auto pass = [&](int which) {
    return [&options, which](const std::vector<NDArray>& v) {
      NDArray x = v[1].detach(), w = full({4, 2, 3, 3}, 0.5, {.dtype = float64}), bias = zeros({4}, {.dtype = float64});
      if (which == 0)
        x.attach_grad();
      w.attach_grad();
      bias.attach_grad();
      const autograd::RecordScope record;
      // The gradient with respect to the weight depends on x, the one with respect to x on dy alone.
      const NDArray y = convolution(which == 0 ? x : v[1], w, bias, options);
      const std::vector<NDArray> heads{y}, head_grads{v[0]}, variables{which == 0 ? x : which == 1 ? w : bias};
      return autograd::grad(heads, variables, head_grads, {.create_graph = true})[0];
    };
  };
  CHECK(gradient_differences(pass(1), inputs) == "");
  CHECK(gradient_differences(pass(0), {inputs[0], inputs[1].astype(float32).astype(float64)}) == "");
}

TEST_CASE("convolution refuses what does not fit, by name") {
  CHECK_THROWS_WITH(
      convolution(ones({1, 1, 3, 3}), ones({1, 1, 1, 1}), {}, {.activation = "gelu"}),
      contains("convolution: activation \"gelu\""));
  const NDArray x = zeros({2, 4, 8, 8}), w = zeros({6, 4, 3, 3});
  CHECK_THROWS_AS(convolution(zeros({4, 8, 8}), w, {}), ShapeError);
  CHECK_THROWS_AS(convolution(x, zeros({6, 3, 3, 3}), {}), ShapeError);
  CHECK_THROWS_AS(convolution(x, w, zeros({5})), ShapeError);
  CHECK_THROWS_AS(convolution(x, zeros({6, 4, 9, 3}), {}), ShapeError);
  CHECK_THROWS_AS(convolution(x, w, {}, {.groups = 4}), ShapeError);
  CHECK_THROWS_AS(convolution(x, w, {}, {.groups = 0}), ValueError);
  CHECK_THROWS_AS(convolution(x, w, {}, {.stride = {0, 1}}), ValueError);
  CHECK_THROWS_AS(convolution(x, w, {}, {.pad = {-1, 1}}), ValueError);
  CHECK_THROWS_AS(convolution(x, w, {}, {.dilation = {1}}), ValueError);
  CHECK_THROWS_AS(convolution(x, w.astype(float64), {}), DTypeError);
  CHECK_THROWS_AS(convolution(x.astype(int32), w.astype(int32), {}), DTypeError);
  CHECK_THROWS_WITH(convolution(x, w, {}, {.groups = 4}), contains("convolution") && contains("4 groups"));
}

TEST_CASE("Our own convolution and oneDNN's give the same, in all three passes") {
  using sluice::detail::ConvolutionPass;
  for (const Case& c : k_cases) {
    CAPTURE(to_string(c.x), to_string(c.weight));
    const sluice::detail::ConvolutionAttributes how{
        .stride = c.options.stride, .pad = c.options.pad, .dilation = c.options.dilation, .groups = c.options.groups};
    const auto g = sluice::detail::convolution_geometry("test", c.x, c.weight, float32, how);
    for (const auto pass :
         {ConvolutionPass::forward, ConvolutionPass::backward_data, ConvolutionPass::backward_weights}) {
      std::vector<NDArray> results;
      for (const bool own : {true, false}) {
        const NDArray x = draw(c.x, 1, float32), w = draw(c.weight, 2, float32), y = draw(g.y_shape(), 3, float32);
        const sluice::detail::ConvolutionData data{data_of(x), data_of(w), data_of(y)};
        run_kernel({x, w, y}, [=](const Queue& queue) {
          if (own || !sluice::detail::convolution_onednn(queue, pass, g, data))
            sluice::detail::convolution_own(queue, pass, g, data);
        });
        results.push_back(pass == ConvolutionPass::forward ? y : pass == ConvolutionPass::backward_data ? x : w);
      }
      CHECK(differences(results[0], results[1], {1e-5, 4e-5}) == "");
    }
  }
}

TEST_CASE("Convolutions from several threads share the caches safely") {
  std::vector<std::thread> threads;
  std::vector<std::string> found(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &found] {
      for (std::int64_t i = 3; i < 10; ++i) {
        const NDArray x = draw({2, 1 + t % 2, i, 9}, 1, float32), w = draw({i, 1 + t % 2, 3, 3}, 2, float32);
        const NDArray want = reference_convolution(x, w, {}, {});
        const std::string what = differences(convolution(x, w, {}), want, sum_tolerance(float32));
        if (!what.empty())
          found[t] = what;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& what : found)
    CHECK(what == "");
}
