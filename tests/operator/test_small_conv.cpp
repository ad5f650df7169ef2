// Small convolutions of floats in TF32, which kernels of ours take on a GPU: which these are, and that they give what a
// CPU gives.
#include <cmath>
#include <vector>

#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/passes.h>
#include <sluice/operator/conv/strip_tiles.h>
#include <sluice/operator/conv/weight_tiles.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/with_tf32.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::ConvolutionAttributes;
using sluice::detail::ConvolutionPass;
using sluice::detail::is_strip_tiled;
using sluice::detail::is_weight_tiled;

namespace {

struct Case {
  Shape x, weight;
  ConvolutionOptions options = {};
};

// Rows narrower than a step of pixels and wider than a strip, strips that end early, more of them than blocks, several
// tiles of channels, pads of each side, kernels of two to nine taps, in one row, in some and in none of one length.
const std::vector<Case> k_cases = {
    {{2, 32, 9, 11}, {64, 32, 3, 3}},
    {{3, 32, 3, 3}, {64, 32, 3, 3}},
    {{3, 64, 7, 7}, {128, 64, 2, 3}, {.pad = {0, 1, 1, 2}}},
    {{5, 32, 6, 5}, {64, 32, 3, 3}, {.pad = {1, 1}}},
    {{2, 96, 4, 40}, {64, 96, 1, 2}},
    {{1, 32, 9, 66}, {64, 32, 3, 3}, {.pad = {2, 2}}},
    {{2, 32, 6, 7}, {64, 32, 2, 1}},
    {{2, 32, 6, 9}, {64, 32, 1, 5}, {.pad = {0, 2}}},
    {{3, 32, 9, 6}, {64, 32, 4, 2}},
    {{2, 32, 8, 12}, {64, 32, 7, 1}},
    {{70, 32, 17, 25}, {64, 32, 3, 1}}};
// What strips alone take: inputs in eights, outputs in 32s (of the last one the gradient alone), short last strips,
// wide images, more tiles than warps.
const std::vector<Case> k_strip_cases = {
    {{2, 8, 9, 9}, {96, 8, 2, 2}},
    {{20, 32, 11, 11}, {32, 32, 3, 3}},
    {{2, 24, 7, 6}, {32, 24, 3, 3}, {.pad = {2, 0, 1, 2}}},
    {{2, 64, 3, 40}, {32, 64, 3, 3}, {.pad = {1, 1}}},
    {{2, 32, 9, 9}, {40, 32, 3, 3}}};

NDArray channels_last(const NDArray& x) {
  return x.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
}
// Multiples of 1/4 whose products and sums neither TF32 nor float32 rounds.
NDArray quarters(const Shape& shape, std::uint64_t seed) {
  return random_array(shape, seed, -3, 4, int32).astype(float32) * 0.25;
}

ConvolutionAttributes attributes_of(const ConvolutionOptions& o) {
  return {.stride = o.stride, .pad = o.pad, .dilation = o.dilation};
}

// y and the gradients of x and of the weight. `bias` may be undefined.
std::vector<NDArray> results_on(
    Device device,
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const NDArray& dy,
    const ConvolutionOptions& options) {
  std::vector<NDArray> v{x, weight};
  for (NDArray& one : v) {
    one = channels_last(one.to(device)).detach();
    one.attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = convolution(v[0], v[1], bias.defined() ? bias.to(device) : NDArray(), options);
  }
  y.backward(channels_last(dy.to(device)));
  return {y.to(cpu()), v[0].grad().to(cpu()), v[1].grad().to(cpu())};
}
void check_same(const std::vector<NDArray>& got, const std::vector<NDArray>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(differences(got[i], want[i], {0, 0}) == "");
  }
}

NDArray weights_on(Device device, const NDArray& x, const NDArray& dy, const NDArray& weight, const Case& c) {
  const auto on = [&](const NDArray& array) { return channels_last(array.to(device)); };
  return sluice::detail::convolution_backward_weights(
      on(x), on(dy), attributes_of(c.options), {weight.shape(), float32, device}, false)[0];
}

}  // namespace

TEST_CASE("Which gradients of weights are summed up by tiles") {
  const WithTf32 tf32;
  const auto taken = [](const Shape& x, const Shape& weight, ConvolutionAttributes how = {}, DType dtype = float32) {
    return is_weight_tiled(
        sluice::detail::convolution_geometry("test", x, weight, dtype, how), MemoryOrder::channels_last, {});
  };
  CHECK(taken({64, 32, 26, 26}, {64, 32, 3, 3}));
  for (const Case& c : k_cases)
    CHECK(taken(c.x, c.weight, attributes_of(c.options)));
  CHECK(!taken({64, 31, 26, 26}, {64, 31, 3, 3}));
  CHECK(!taken({64, 32, 26, 26}, {63, 32, 3, 3}));
  CHECK(!taken({64, 32, 26, 26}, {64, 32, 1, 1}));
  CHECK(!taken({64, 32, 26, 26}, {64, 32, 2, 5}));
  CHECK(!taken({64, 64, 26, 26}, {64, 32, 3, 3}, {.groups = 2}));
  CHECK(!taken({64, 32, 26, 26}, {64, 32, 3, 3}, {.stride = {1, 2}}));
  CHECK(!taken({64, 32, 26, 26}, {64, 32, 3, 3}, {.dilation = {2, 1}}));
  CHECK(!taken({64, 32, 26, 26}, {64, 32, 3, 3}, {}, float64));
  CHECK(!taken({64, 32, 26, 26}, {64, 32, 3, 3}, {}, float16));
  CHECK(!taken({0, 32, 26, 26}, {64, 32, 3, 3}));
  CHECK(!taken({1, 32, 3, 200}, {64, 32, 3, 3}));    // no strip has room
  CHECK(!taken({640, 32, 26, 26}, {64, 32, 3, 3}));  // a library's
  CHECK(!is_weight_tiled(
      sluice::detail::convolution_geometry("test", {64, 32, 26, 26}, {64, 32, 3, 3}, float32, {}),
      MemoryOrder::row_major,
      {}));
}

TEST_CASE("Which convolutions are computed by strips, and gradients of x") {
  const auto taken = [](ConvolutionPass pass,
                        const Shape& x,
                        const Shape& weight,
                        ConvolutionAttributes how = {},
                        DType dtype = float32,
                        MemoryOrder order = MemoryOrder::channels_last) {
    return is_strip_tiled(pass, sluice::detail::convolution_geometry("test", x, weight, dtype, how), order, {});
  };
  const ConvolutionPass passes[] = {ConvolutionPass::forward, ConvolutionPass::backward_data};
  const Shape x{64, 32, 26, 26}, weight{64, 32, 3, 3};
  CHECK(!taken(passes[0], x, weight));  // without TF32
  const WithTf32 tf32;
  for (const ConvolutionPass pass : passes) {
    CHECK(taken(pass, x, weight));
    CHECK(taken(pass, {64, 32, 26, 26}, {64, 32, 3, 3}, {.pad = {2, 1}}));
    CHECK(!taken(pass, x, weight, {.stride = {2, 1}}));
    CHECK(!taken(pass, x, weight, {.dilation = {1, 2}}));
    CHECK(!taken(pass, {64, 64, 26, 26}, weight, {.groups = 2}));
    CHECK(!taken(pass, x, weight, {}, float64));
    CHECK(!taken(pass, x, weight, {}, DType::float16));
    CHECK(!taken(pass, x, weight, {}, float32, MemoryOrder::row_major));
    CHECK(!taken(pass, x, {64, 32, 1, 1}));
    CHECK(!taken(pass, {0, 32, 26, 26}, weight));
    CHECK(!taken(pass, {640, 32, 26, 26}, weight));           // a library's
    CHECK(!taken(pass, {1, 256, 26, 26}, {256, 256, 3, 3}));  // no room for the weight
    CHECK(!taken(pass, {1, 64, 8000, 1}, {64, 64, 49, 1}));   // at no height, which nobody counts
  }
  CHECK(taken(passes[0], {2, 8, 9, 9}, {96, 8, 2, 2}));
  CHECK(!taken(passes[0], {2, 8, 9, 9}, {96, 8, 1, 3}));  // sums of 24 are not rounded for tensor cores
  CHECK(!taken(passes[0], {2, 12, 9, 9}, {96, 12, 3, 3}));
  CHECK(!taken(passes[0], {2, 32, 9, 9}, {40, 32, 3, 3}));
  CHECK(taken(passes[1], {2, 32, 9, 9}, {40, 32, 3, 3}));
  CHECK(taken(passes[1], {2, 32, 9, 9}, {8, 32, 2, 2}));
  CHECK(!taken(passes[1], {2, 32, 9, 9}, {8, 32, 1, 3}));  // its sums are of outputs: 24 again
  CHECK(!taken(passes[1], x, weight, {.pad = {3, 0}}));    // beyond what turned kernels are padded by
  CHECK(taken(passes[0], x, weight, {.pad = {3, 0}}));
  CHECK(!taken(passes[0], {1, 8, 1, 5}, {4194304, 8, 1, 5}));  // more blocks than a grid has
  CHECK(!taken(ConvolutionPass::backward_weights, x, weight));
}

TEST_CASE("Strips have room in shared memory and are no more than multiprocessors ask for") {
  const auto plan = [](const Shape& x, const Shape& weight) {
    return sluice::detail::strip_plan(
        ConvolutionPass::forward, sluice::detail::convolution_geometry("test", x, weight, float32, {}));
  };
  CHECK(plan({64, 32, 26, 26}, {64, 32, 3, 3}).rows == 12);  // two an image
  CHECK(plan({64, 32, 26, 26}, {64, 32, 3, 3}).high == 3);   // 12 tiles, as many for each part of a multiprocessor
  CHECK(plan({140, 64, 16, 16}, {32, 64, 3, 3}).high == 2);  // of 48 pixels there would be five
  CHECK(plan({1, 32, 26, 26}, {64, 32, 3, 3}).rows == 1);
  CHECK(plan({500, 32, 26, 26}, {64, 32, 3, 3}).rows == 24);
  for (const std::int64_t height : {3, 40, 300, 5000}) {
    const auto made = plan({200, 32, height, 40}, {64, 32, 3, 3});
    CAPTURE(height, made.rows);
    CHECK(made.rows >= 1);
    CHECK(made.bytes <= 224 << 10);
  }
  CHECK(plan({1, 256, 9, 9}, {256, 256, 3, 3}).rows == 0);
}

TEST_CASE("Without TF32 no gradient of weights is summed up by tiles") {
  CHECK(!is_weight_tiled(
      sluice::detail::convolution_geometry("test", {64, 32, 26, 26}, {64, 32, 3, 3}, float32, {}),
      MemoryOrder::channels_last,
      {}));
}

TEST_CASE("Gradients of weights by tiles on a GPU are the CPU's, and the same every time", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  for (const Case& c : k_cases) {
    CAPTURE(to_string(c.x), to_string(c.weight));
    const NDArray x = quarters(c.x, 1), weight = quarters(c.weight, 2);
    const NDArray dy = quarters(convolution(x, weight, {}, c.options).shape(), 3);
    const NDArray want = weights_on(cpu(), x, dy, weight, c), got = weights_on(gpu(), x, dy, weight, c);
    CHECK(differences(got.to(cpu()), want, {0, 0}) == "");
    CHECK(differences(weights_on(gpu(), x, dy, weight, c), got, {0, 0}) == "");
  }
}

TEST_CASE("What is beside an image is no factor of a NaN that a tile of weights' gradients sees", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  const Case c{{1, 32, 3, 12}, {64, 32, 3, 3}};  // rows of 10, which are no whole steps
  const NDArray weight = quarters(c.weight, 2), dy = quarters({1, 64, 1, 10}, 3);
  NDArray x = quarters(c.x, 1);
  x.slice(3, 11, 12).assign(NAN);  // the last column, which the first taps never meet
  const NDArray got = weights_on(gpu(), x, dy, weight, c).to(cpu());
  CHECK(differences(got, weights_on(cpu(), x, dy, weight, c), {0, 0}) == "");
  CHECK(!any(isnan(got.slice(3, 0, 2))).item<bool>());
  CHECK(all(isnan(got.slice(3, 2, 3))).item<bool>());
  x = quarters(c.x, 1);
  x.slice(2, 1, 2).slice(3, 0, 1).assign(NAN);  // where a step's pixels behind the last one would lie for the first row
  const NDArray other = weights_on(gpu(), x, dy, weight, c).to(cpu());
  CHECK(differences(other, weights_on(cpu(), x, dy, weight, c), {0, 0}) == "");
  CHECK(!any(isnan(other.slice(2, 0, 1))).item<bool>());
}

TEST_CASE("Small convolutions in TF32, with bias and relu, and all their gradients are the CPU's", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  std::vector<Case> cases = k_cases;
  cases.insert(cases.end(), k_strip_cases.begin(), k_strip_cases.end());
  for (const Case& c : cases) {
    for (const bool behind : {false, true}) {
      CAPTURE(to_string(c.x), to_string(c.weight), behind);
      ConvolutionOptions options = c.options;
      options.activation = behind ? "relu" : "";
      const NDArray x = quarters(c.x, 1), weight = quarters(c.weight, 2);
      const NDArray bias = behind ? quarters({c.weight[0]}, 3) : NDArray();
      const NDArray dy = quarters(convolution(x, weight, {}, c.options).shape(), 9);
      check_same(results_on(gpu(), x, weight, bias, dy, options), results_on(cpu(), x, weight, bias, dy, options));
    }
  }
}

TEST_CASE("Numbers of small convolutions are rounded to the nearest ones of TF32, not cut off", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  const auto signs = [](const Shape& shape, std::uint64_t seed) {
    return random_array(shape, seed, -1, 2, int32).astype(float32);
  };
  constexpr double k_between = 1 + 3.0 / 4096, k_nearest = 1 + 1.0 / 1024;  // the one below is 1
  for (const Case& c : {k_cases[0], k_strip_cases[3]}) {
    const std::vector<NDArray> of{
        signs(c.x, 1),
        signs(c.weight, 2),
        signs(convolution(signs(c.x, 1), signs(c.weight, 2), {}, c.options).shape(), 3)};
    for (std::size_t which = 0; which < of.size(); ++which) {
      CAPTURE(to_string(c.x), which);
      const auto results = [&](Device device, double number) {
        std::vector<NDArray> v = of;
        v[which] = v[which] * number;
        return results_on(device, v[0], v[1], {}, v[2], c.options);
      };
      // The gradient of a weight that tiles do not take is not by tensor cores where there is no library.
      std::vector<NDArray> got = results(gpu(), k_between), want = results(cpu(), k_nearest);
      if (c.weight[0] % 64 != 0) {
        got.pop_back();
        want.pop_back();
      }
      check_same(got, want);
    }
  }
}

TEST_CASE("What is fused with a small convolution in TF32 is the CPU's", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  for (const Case& c : {k_cases[0], k_cases[3], k_strip_cases[2]}) {
    ConvolutionOptions options = c.options;
    options.activation = "relu";
    const NDArray x = quarters(c.x, 1), weight = quarters(c.weight, 2);
    const Shape shape = convolution(x, weight, {}, c.options).shape(), channels{c.weight[0]};
    for (const int parts : {1, 2, 4, 7}) {
      CAPTURE(to_string(c.x), parts);
      const auto on = [&](Device device) {
        ConvolutionEpilogue then;
        if ((parts & 1) != 0)
          then.scale = quarters(channels, 3).to(device);
        if ((parts & 2) != 0)
          then.shift = quarters(channels, 4).to(device);
        if ((parts & 4) != 0)
          then.residual = channels_last(quarters(shape, 5).to(device));
        return convolution_fused(channels_last(x.to(device)), channels_last(weight.to(device)), then, options)
            .to(cpu());
      };
      CHECK(differences(on(gpu()), on(cpu()), {0, 0}) == "");
    }
  }
}
