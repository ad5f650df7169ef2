// Convolutions of one axis, and transposed ones of one and two, against plain loops in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Each element of x adds its window to the result.
NDArray reference(const NDArray& x, const NDArray& weight, const NDArray& bias, const DeconvolutionOptions& o) {
  const Shape &xs = x.shape(), &ws = weight.shape();
  const auto xv = x.to_vector<double>(), wv = weight.to_vector<double>();
  const std::int64_t channels = ws[1] * o.groups, inputs = xs[1] / o.groups;
  const bool apart = o.pad.ndim() == 4;
  Shape out{xs[0], channels, 0, 0};
  for (int i = 0; i < 2; ++i)
    out[i + 2] = o.stride[i] * (xs[i + 2] - 1) + o.dilation[i] * (ws[i + 2] - 1) + 1 - o.pad[i] -
                 o.pad[apart ? i + 2 : i] + o.adj[i];
  std::vector<double> y(static_cast<std::size_t>(out.size()));
  const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t row, std::int64_t column) -> double& {
    return y[static_cast<std::size_t>(((n * channels + c) * out[2] + row) * out[3] + column)];
  };
  for (std::int64_t n = 0; n < xs[0]; ++n)
    for (std::int64_t c = 0; c < channels && bias.defined(); ++c)
      for (std::int64_t i = 0; i < out[2] * out[3]; ++i)
        at(n, c, 0, i) = bias.to_vector<double>()[static_cast<std::size_t>(c)];
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t column = i % xs[3], row = i / xs[3] % xs[2], from = i / xs[3] / xs[2] % xs[1];
    const std::int64_t n = i / xs[3] / xs[2] / xs[1];
    for (std::int64_t j = 0; j < ws[1] * ws[2] * ws[3]; ++j) {
      const std::int64_t kx = j % ws[3], ky = j / ws[3] % ws[2], to = j / ws[3] / ws[2];
      const std::int64_t oy = row * o.stride[0] + ky * o.dilation[0] - o.pad[0];
      const std::int64_t ox = column * o.stride[1] + kx * o.dilation[1] - o.pad[1];
      if (oy >= 0 && oy < out[2] && ox >= 0 && ox < out[3])
        at(n, from / inputs * ws[1] + to, oy, ox) +=
            xv[static_cast<std::size_t>(i)] * wv[static_cast<std::size_t>(from * ws[1] * ws[2] * ws[3] + j)];
    }
  }
  return array(y, out);
}

struct Case {
  Shape x, weight;
  DeconvolutionOptions options;
};

const std::vector<Case> k_cases = {
    {{2, 3, 4, 5}, {3, 2, 3, 3}, {}},
    {{2, 3, 4, 5}, {3, 2, 3, 2}, {.stride = {2, 3}, .pad = {1, 0}}},
    {{1, 4, 3, 3}, {4, 2, 2, 3}, {.stride = {2, 2}, .pad = {1, 2}, .dilation = {3, 2}, .adj = {1, 0}, .groups = 2}},
    {{2, 2, 3, 2}, {2, 1, 4, 4}, {.stride = {3, 2}, .pad = {2, 0, 1, 3}, .adj = {2, 1}, .groups = 2}},
    {{1, 2, 1, 1}, {2, 3, 1, 1}, {.stride = {5, 5}, .adj = {4, 3}}},
    {{1, 1, 1, 4}, {1, 2, 5, 1}, {}},
};

NDArray bias_of(const Case& c, DType dtype) {
  return random_array({c.weight[1] * c.options.groups}, 3, -1, 1, dtype);
}

}  // namespace

TEST_CASE("deconvolution agrees with plain loops for every type and attribute", "[deconvolution]") {
  for (const Case& c : k_cases) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype));
      const NDArray x = random_array(c.x, 1, -1, 1, dtype), weight = random_array(c.weight, 2, -1, 1, dtype);
      const NDArray bias = bias_of(c, dtype), y = deconvolution(x, weight, bias, c.options);
      CHECK(y.dtype() == dtype);
      CHECK(differences(y, reference(x, weight, bias, c.options), sum_tolerance(dtype)) == "");
      CHECK(
          differences(
              deconvolution(x, weight, {}, c.options), reference(x, weight, {}, c.options), sum_tolerance(dtype)) ==
          "");
    }
  }
}

TEST_CASE("deconvolution gives what a convolution takes back, with adj as the lines it drops", "[deconvolution]") {
  const NDArray x = random_array({2, 3, 8, 7}, 1), weight = random_array({4, 3, 3, 2}, 2);
  const NDArray small = convolution(x, weight, {}, {.stride = {2, 3}, .pad = {1, 0}});
  REQUIRE(small.shape() == Shape{2, 4, 4, 2});
  const NDArray large = deconvolution(small, weight, {}, {.stride = {2, 3}, .pad = {1, 0}, .adj = {1, 2}});
  CHECK(large.shape() == x.shape());
}

TEST_CASE("The gradients of deconvolution agree with finite differences, twice", "[deconvolution]") {
  for (const Case& c : k_cases) {
    CAPTURE(to_string(c.x), to_string(c.weight));
    const std::vector<NDArray> inputs{
        random_array(c.x, 1, -1, 1, float64), random_array(c.weight, 2, -1, 1, float64), bias_of(c, float64)};
    const auto f = [&](const auto& v) { return deconvolution(v[0], v[1], v[2], c.options); };
    CHECK(gradient_differences(f, inputs) == "");
    const auto gradient = [&](const std::vector<NDArray>& v) {
      std::vector<NDArray> at;
      for (const NDArray& each : v) {
        at.push_back(each.requires_grad() ? each : each.detach());
        if (!at.back().requires_grad())
          at.back().attach_grad();
      }
      const autograd::RecordScope record;
      const NDArray y = f(at);
      const std::vector<NDArray> heads{y * y}, by{at[0], at[1]};
      const std::vector<NDArray> both = autograd::grad(heads, by, {}, {.create_graph = true});
      return concat({both[0].flatten().reshape({-1}), both[1].reshape({-1})});
    };
    CHECK(gradient_differences(gradient, inputs) == "");
  }
}

TEST_CASE("Convolutions of one axis are those of images of one row", "[deconvolution]") {
  for (const DType dtype : k_heavy_dtypes) {
    CAPTURE(name_of(dtype));
    const NDArray x = random_array({2, 4, 9}, 1, -1, 1, dtype), weight = random_array({6, 2, 3}, 2, -1, 1, dtype);
    const NDArray bias = random_array({6}, 3, -1, 1, dtype);
    const NDArray y = convolution1d(x, weight, bias, {.stride = 2, .pad = {2}, .dilation = 2, .groups = 2});
    const ConvolutionOptions image{.stride = {1, 2}, .pad = {0, 2}, .dilation = {1, 2}, .groups = 2};
    const NDArray want = reference_convolution(x.expand_dims(2), weight.expand_dims(2), bias, image);
    CHECK(differences(y, want.squeeze(2), sum_tolerance(dtype)) == "");
    const NDArray back = random_array({4, 3, 3}, 4, -1, 1, dtype), last = bias.slice(0, 0, 3);
    const NDArray spread = deconvolution1d(x, back, last, {.stride = 3, .pad = {1, 2}, .adj = 2});
    const DeconvolutionOptions o{.stride = {1, 3}, .pad = {0, 1, 0, 2}, .adj = {0, 2}};
    const NDArray all = reference(x.expand_dims(2), back.expand_dims(2), last, o);
    CHECK(differences(spread, all.squeeze(2), sum_tolerance(dtype)) == "");
  }
  const NDArray x = random_array({2, 2, 9}, 1), weight = random_array({3, 2, 2}, 2);
  const NDArray sides = convolution1d(x, weight, {}, {.pad = {0, 3}});
  CHECK(differences(sides, convolution1d(pad(x, {{0, 0}, {0, 0}, {0, 3}}), weight, {})) == "");
  const NDArray positive = convolution1d(x, weight, {}, {.activation = "relu"});
  CHECK(differences(positive, relu(convolution1d(x, weight, {}))) == "");
  CHECK(convolution1d(zeros({0, 2, 9}), weight, {}).shape() == Shape{0, 3, 8});
  CHECK(deconvolution1d(zeros({0, 3, 9}), weight, {}).shape() == Shape{0, 2, 10});
  CHECK(deconvolution(zeros({0, 3, 2, 2}), ones({3, 1, 2, 2}), ones({1})).shape() == Shape{0, 1, 3, 3});
}

TEST_CASE("Composed convolutions are in graphs what they are by hand", "[deconvolution]") {
  const NDArray x = random_array({3, 2, 5}, 1), weight = random_array({2, 3, 3}, 2), bias = random_array({3}, 3);
  const auto f = [](const auto& v) {
    const NDArray wide = deconvolution1d(v[0], v[1], v[2], {.stride = 2, .pad = {1}});
    return convolution1d(wide, v[1], {}, {.activation = "relu"});
  };
  CHECK(traced_differences(f, {x, weight, bias}) == "");
}

TEST_CASE("Composed convolutions refuse what does not fit, by name and values", "[deconvolution]") {
  const NDArray x = ones({1, 2, 3, 3}), weight = ones({2, 4, 2, 2}), row = ones({1, 2, 5}), taps = ones({4, 2, 3});
  CHECK_THROWS_AS(deconvolution(ones({2, 3, 3}), weight, {}), ShapeError);
  CHECK_THROWS_AS(deconvolution(x, ones({2, 4, 2}), {}), ShapeError);
  CHECK_THROWS_AS(deconvolution(x, ones({3, 4, 2, 2}), {}), ShapeError);
  CHECK_THROWS_AS(deconvolution(x, weight, ones({2})), ShapeError);
  CHECK_THROWS_AS(deconvolution(x, weight, {}, {.groups = 3}), ShapeError);
  CHECK_THROWS_AS(deconvolution(x, weight, {}, {.groups = 0}), ValueError);
  CHECK_THROWS_AS(deconvolution(x, weight, {}, {.stride = {0, 1}}), ValueError);
  CHECK_THROWS_AS(deconvolution(x, weight, {}, {.adj = {1, 0}}), ValueError);
  CHECK_THROWS_AS(deconvolution(x, weight, {}, {.stride = {2, 2}, .adj = {0, -1}}), ValueError);
  CHECK_NOTHROW(deconvolution(x, weight, {}, {.pad = {1, 1, 2, 2}}));  // one is left
  CHECK_THROWS_WITH(
      deconvolution(x, weight, {}, {.pad = {2, 2}}),
      contains("deconvolution") && contains("(1, 2, 3, 3)") && contains("(2, 2)"));
  CHECK_THROWS_AS(deconvolution(zeros({1, 2, 0, 3}), weight, {}), ShapeError);
  CHECK_THROWS_AS(deconvolution(zeros({1, 0, 3, 3}), zeros({0, 4, 2, 2}), {}), ShapeError);
  CHECK_THROWS_AS(
      deconvolution(ones({1, 1, 1, 1}).broadcast_to({1, 1, 1, std::int64_t{1} << 32}), ones({1, 1, 1, 1}), {}),
      ShapeError);
  CHECK_THROWS_AS(deconvolution(x, weight.astype(float64), {}), DTypeError);
  CHECK_THROWS_AS(deconvolution(x.astype(int32), weight.astype(int32), {}), DTypeError);
  CHECK_THROWS_AS(deconvolution(NDArray(), weight, {}), ValueError);
  CHECK_THROWS_AS(convolution1d(ones({2, 5}), taps, {}), ShapeError);
  CHECK_THROWS_AS(convolution1d(row, ones({4, 2, 3, 1}), {}), ShapeError);
  CHECK_THROWS_AS(convolution1d(row, taps, {}, {.pad = {1, 1, 1}}), ValueError);
  CHECK_THROWS_AS(convolution1d(row, taps, {}, {.pad = {-1}}), ValueError);
  CHECK_THROWS_AS(convolution1d(row, taps, {}, {.activation = "tanh"}), ValueError);
  CHECK_THROWS_AS(convolution1d(row, taps, ones({3})), ShapeError);
  CHECK(convolution1d(row, taps, {}, {.dilation = 2}).shape() == Shape{1, 4, 1});
  CHECK_THROWS_WITH(convolution1d(row, taps, {}, {.dilation = 3}), contains("convolution1d") && contains("dilation 3"));
  CHECK_THROWS_AS(deconvolution1d(ones({1, 4, 2}), taps, {}, {.stride = 2, .adj = 2}), ValueError);
  const Operator& op = *find_operator("deconvolution");
  const Attributes how = parse_attributes(op, "stride=(2, 2)");
  CHECK_THROWS_AS(invoke_one(op, {x}, how, {}), ValueError);
  CHECK_THROWS_AS(infer(op, std::vector<ArraySpec>{{{1, 2, 3, 3}}, {{2, 4, 2, 2}}, {{5}}}, how), ShapeError);
  CHECK(infer(op, std::vector<ArraySpec>{{{1, 2, 3, 3}}, {{2, 4, 2, 2}}}, how)[0].shape == Shape{1, 4, 6, 6});
}
