// A convolution with what follows it as one call, and batch norm as a scale and a shift.
#include <cmath>

#include "tests/operator/fused_convolutions.h"
#include "tests/operator/heavy_reference.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// The first ones a library of a GPU takes whole, in types that tensor cores take.
const std::vector<FusedConvolution> k_cases = {
    {{2, 8, 6, 5}, {16, 8, 3, 3}, {.pad = {1, 1}}},
    {{1, 16, 7, 7}, {8, 16, 1, 1}, {.stride = {2, 2}}},
    {{2, 8, 9, 8}, {8, 8, 3, 2}, {.stride = {2, 3}, .pad = {1, 2}}},
    {{1, 8, 11, 9}, {8, 8, 3, 3}, {.stride = {1, 2}, .pad = {2, 0}, .dilation = {2, 3}}},
    {{2, 3, 7, 6}, {8, 3, 3, 3}, {.pad = {1, 1}}},
    {{1, 3, 9, 9}, {8, 3, 7, 7}, {.stride = {2, 2}, .pad = {3, 3}}},
    {{3, 4, 6, 6}, {6, 2, 3, 3}, {.pad = {1, 1}, .groups = 2}},
    {{2, 6, 7, 5}, {6, 1, 3, 3}, {.stride = {2, 1}, .pad = {1, 1}, .groups = 6}},
    {{2, 17, 6, 6}, {33, 17, 3, 3}, {.pad = {1, 1}}},
};

// What is asked for, in float64, of the numbers that the arrays hold.
NDArray reference(
    const NDArray& x, const NDArray& w, const ConvolutionEpilogue& then, const ConvolutionOptions& options) {
  NDArray y = reference_convolution(x.to(cpu()), w.to(cpu()), {}, options);
  const auto wide = [](const NDArray& array) { return array.to(cpu()).astype(float64); };
  const Shape along{1, y.shape()[1], 1, 1};
  if (then.scale.defined())
    y = y * wide(then.scale).reshape(along);
  if (then.shift.defined())
    y = y + wide(then.shift).reshape(along);
  if (then.residual.defined())
    y = y + wide(then.residual);
  return options.activation == "relu" ? relu(y) : y;
}

// Where something is rounded on the way, as the sums are, the result is off by that too.
Tolerance twice(DType dtype) {
  const Tolerance one = sum_tolerance(dtype);
  return {2 * one.relative, 2 * one.absolute};
}

void check_cases(Device device) {
  for (const FusedConvolution& c : k_cases) {
    for (const DType dtype : k_heavy_dtypes) {
      const NDArray x = draw(c.x, 1, dtype, device), w = draw(c.weight, 2, dtype, device);
      const Shape y = reference_convolution(zeros(c.x), zeros(c.weight), {}, c.options).shape();
      for (int which = 0; which < 16; ++which) {
        CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype), which);
        const ConvolutionEpilogue then = epilogue_of(which, y, dtype, device);
        ConvolutionOptions options = c.options;
        options.activation = (which & 8) != 0 ? "relu" : "";
        const NDArray made = convolution_fused(x, w, then, options);
        CHECK(made.dtype() == dtype);
        CHECK(differences(made.to(cpu()), reference(x, w, then, options), twice(dtype)) == "");
      }
    }
  }
}

void check_special(Device device) {
  for (const DType dtype : {float32, float16, bfloat16}) {
    CAPTURE(dtype);
    NDArray x = random_array({1, 8, 5, 5}, 1, -1, 1, dtype);
    x.slice(2, 0, 1).assign(NAN);
    x.slice(2, 2, 3).slice(3, 0, 1).assign(INFINITY);
    x.slice(2, 4, 5).slice(3, 4, 5).assign(-INFINITY);
    NDArray w = ones({8, 8, 1, 1}, {.dtype = dtype});
    w.slice(0, 1, 2).assign(-1);
    std::vector<float> scales(8, 1), shifts(8, 0);
    scales[2] = NAN;
    shifts[3] = -INFINITY;
    scales[4] = 0;  // times infinity is no number
    const ConvolutionEpilogue then{array(scales, {8}), array(shifts, {8}), random_array({1, 8, 5, 5}, 3, -1, 1, dtype)};
    const ConvolutionEpilogue there{then.scale.to(device), then.shift.to(device), then.residual.to(device)};
    for (const char* activation : {"", "relu"}) {
      const ConvolutionOptions options{.activation = activation};
      const NDArray made = convolution_fused(x.to(device), w.to(device), there, options).to(cpu());
      CHECK(differences(made, reference(x, w, then, options), twice(dtype)) == "");
      CHECK(sum(isnan(made)).item<std::int64_t>() >= 40 + 20);
    }
  }
}

// Kernels of odd and even width that go two pixels on: what a result does not read it does not see, whatever it holds.
void check_unread(Device device) {
  for (const DType dtype : {float16, bfloat16}) {
    for (const std::int64_t width : {4, 5}) {
      const NDArray w = draw({8, 3, 5, width}, 2, dtype, cpu());
      const ConvolutionOptions options{.stride = {2, 2}, .pad = {2, 2}};
      for (std::int64_t column = 0; column < 9; ++column) {
        CAPTURE(dtype, width, column);
        NDArray x = draw({1, 3, 9, 9}, 1, dtype, cpu());
        x.slice(3, column, column + 1).assign(column % 2 == 0 ? NAN : INFINITY);
        const NDArray made = convolution_fused(x.to(device), w.to(device), {}, options).to(cpu());
        CHECK(differences(made, reference(x, w, {}, options), twice(dtype)) == "");
      }
    }
  }
}

// Arrays whose channels are last, one after the other off 16 bytes.
void check_unaligned(Device device) {
  const ConvolutionOptions options{.pad = {1, 1}};
  const auto part = [&](const Shape& last, std::uint64_t seed, std::int64_t begin) {
    const std::int64_t n = last[0] * last[1] * last[2] * last[3];
    return draw({n + 8}, seed, float16, device).slice(0, begin, begin + n).reshape(last).transpose({0, 3, 1, 2});
  };
  for (int which = 0; which < 4; ++which) {
    CAPTURE(which);
    const auto begin = [&](int of) { return of == which ? std::int64_t{1} : std::int64_t{0}; };
    const NDArray x = part({2, 7, 6, 8}, 1, begin(0)), w = part({16, 3, 3, 8}, 2, begin(1));
    const ConvolutionEpilogue then{.residual = part({2, 7, 6, 16}, 3, begin(2))};
    const NDArray made = convolution_fused(x, w, then, options).to(cpu());
    CHECK(differences(made, reference(x, w, then, options), twice(float16)) == "");
  }
}

// -0 is what the other calls make it, and 0 behind relu.
void check_zeros(Device device) {
  for (const char* activation : {"", "relu"}) {
    const NDArray x = zeros({1, 8, 3, 3}, {.dtype = float16}), w = ones({8, 8, 1, 1}, {.dtype = float16});
    const ConvolutionEpilogue then{.scale = full({8}, -1, {.device = device})};
    const NDArray made = convolution_fused(x.to(device), w.to(device), then, {.activation = activation}).to(cpu());
    const bool negative = *activation == 0;
    for (const double value : made.to_vector<double>())
      CHECK((value == 0 && std::signbit(value) == negative));
  }
}

void check_layouts(Device device) {
  for (const DType dtype : {float32, float16}) {
    const NDArray x = draw({5, 6, 8, 2}, 1, dtype, device).transpose({3, 2, 1, 0});
    const NDArray w = draw({3, 3, 8, 16}, 2, dtype, device).transpose();
    const ConvolutionOptions options{.pad = {1, 1}, .activation = "relu"};
    const std::vector<NDArray> residuals{
        draw({2, 6, 5, 16}, 3, dtype, device).transpose({0, 3, 1, 2}),
        draw({1, 16, 1, 1}, 4, dtype, device).broadcast_to({2, 16, 6, 5}),
        draw({2, 32, 6, 5}, 5, dtype, device).slice(1, 16, 32)};
    for (const NDArray& residual : residuals) {
      const NDArray scale = draw({32}, 6, float32, device).slice(0, 0, 32, 2);
      const ConvolutionEpilogue then{scale, draw({1}, 7, float32, device).broadcast_to({16}), residual};
      CHECK(
          differences(convolution_fused(x, w, then, options).to(cpu()), reference(x, w, then, options), twice(dtype)) ==
          "");
    }
  }
}

void check_empty(Device device) {
  const NDArray shift = draw({4}, 1, float16, device).astype(float32);
  const auto made = [&](const Shape& x, const Shape& w) {
    const ArrayOptions there{.dtype = float16, .device = device};
    return convolution_fused(zeros(x, there), zeros(w, there), {.shift = shift}, {.activation = "relu"}).to(cpu());
  };
  CHECK(made({0, 8, 4, 4}, {4, 8, 3, 3}).shape() == Shape{0, 4, 2, 2});
  const NDArray wanted = relu(shift.to(cpu()).astype(float16)).reshape({1, 4, 1, 1}).broadcast_to({1, 4, 2, 2});
  CHECK(differences(made({1, 0, 4, 4}, {4, 0, 3, 3}), wanted) == "");
}

void check_folded(Device device) {
  for (const auto& [x_type, parameters] :
       {std::pair{float32, float32},
        {float64, float64},
        {float16, float32},
        {float16, float16},
        {bfloat16, bfloat16}}) {
    for (const bool fix_gamma : {false, true}) {
      CAPTURE(x_type, parameters, fix_gamma);
      const auto parameter = [&, type = parameters](int seed, double low) {
        return random_array({7}, static_cast<std::uint64_t>(seed), low, 1.5, type).to(device);
      };
      const NDArray gamma = parameter(1, -1), beta = parameter(2, -1), mean = parameter(3, -1), var = parameter(4, 0.1);
      const NDArray x = draw({2, 7, 3, 4}, 5, x_type, device), bias = draw({7}, 6, x_type, device);
      const auto attributes = message("eps=0.001, fix_gamma=", fix_gamma ? "true" : "false");
      const Operator& op = *find_operator("batch_norm_fold");
      const BatchNormOptions how{.eps = 0.001, .use_global_stats = true, .fix_gamma = fix_gamma};
      const Shape along{1, 7, 1, 1};
      for (const bool with_bias : {false, true}) {
        Arrays inputs{gamma, beta, mean, var};
        if (with_bias)
          inputs.push_back(bias);
        const Arrays made = invoke(op, inputs, parse_attributes(op, attributes), SourceLocation::current());
        CHECK(made[0].dtype() == coefficients_of(parameters));
        const NDArray wide = x.astype(float64) + (with_bias ? bias.astype(float64).reshape(along)
                                                            : zeros({}, {.dtype = float64, .device = device}));
        const auto d = [](const NDArray& a) { return a.astype(float64); };
        const NDArray wanted = batch_norm(wide, d(gamma), d(beta), d(mean), d(var), how);
        const NDArray got = d(x) * d(made[0]).reshape(along) + d(made[1]).reshape(along);
        CHECK(differences(got.to(cpu()), wanted.to(cpu()), {1e-5, 1e-5}) == "");
      }
    }
  }
}

}  // namespace

TEST_CASE("A convolution with what follows it agrees with plain loops", "[conv][fused]") {
  check_cases(cpu());
}
TEST_CASE("A convolution with what follows it agrees with plain loops on a GPU", "[conv][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_cases(gpu());
}
TEST_CASE("NaN and infinity pass a convolution with what follows it", "[conv][fused]") {
  check_special(cpu());
  check_unread(cpu());
  check_zeros(cpu());
}
TEST_CASE("NaN and infinity pass a convolution with what follows it on a GPU", "[conv][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_special(gpu());
  check_unread(gpu());
  check_zeros(gpu());
}
TEST_CASE("A convolution with what follows it takes arrays as they lie", "[conv][fused]") {
  check_layouts(cpu());
  check_unaligned(cpu());
  check_empty(cpu());
}
TEST_CASE("A convolution with what follows it takes arrays as they lie on a GPU", "[conv][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_layouts(gpu());
  check_unaligned(gpu());
  check_empty(gpu());
}
TEST_CASE("Batch norm of constant statistics is a scale and a shift", "[conv][fused]") {
  check_folded(cpu());
}
TEST_CASE("Batch norm of constant statistics is a scale and a shift on a GPU", "[conv][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_folded(gpu());
}

TEST_CASE("On a GPU the sum of a half type is rounded once", "[conv][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  // 2049 is no float16: by hand the sum is 2048, and nothing is left of it.
  const NDArray x = ones({1, 8, 4, 4}, {.dtype = float16}).to(gpu());
  NDArray w = zeros({8, 8, 1, 1}, {.dtype = float16});
  w.slice(1, 0, 1).assign(2048);
  w.slice(1, 1, 2).assign(1);
  const ConvolutionEpilogue then{.residual = full({1, 8, 4, 4}, -2048, {.dtype = float16}).to(gpu())};
  CHECK(max(convolution_fused(x, w.to(gpu()), then)).to(cpu()).astype(float32).item<float>() == 1);
}

// Of capability 9.0 alone: there the bias is part of a kernel of ours.
TEST_CASE("On a GPU the sum of a half type and a bias is rounded once", "[conv][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = ones({1, 8, 4, 4}, {.dtype = float16}).to(gpu());
  NDArray w = zeros({8, 8, 1, 1}, {.dtype = float16});
  w.slice(1, 0, 1).assign(2048);
  w.slice(1, 1, 2).assign(1);
  const NDArray bias = full({8}, -2048, {.dtype = float16}).to(gpu());
  for (const char* activation : {"", "relu"}) {
    const NDArray made = convolution(x, w.to(gpu()), bias, {.activation = activation});
    CHECK(max(made).to(cpu()).astype(float32).item<float>() == 1);
  }
}

TEST_CASE("The gradients of a convolution with what follows it are those of the calls one by one", "[conv][fused]") {
  for (const DType dtype : {float64, float32}) {
    const NDArray x = draw({2, 4, 5, 5}, 1, dtype, cpu()), w = draw({6, 4, 3, 3}, 2, dtype, cpu());
    const ConvolutionEpilogue then = epilogue_of(7, {2, 6, 3, 3}, dtype, cpu());
    std::vector<NDArray> grads[2];
    for (const bool whole : {false, true}) {
      std::vector<NDArray> v{x.copy(), w.copy(), then.scale.copy(), then.shift.copy(), then.residual.copy()};
      for (NDArray& each : v)
        each.attach_grad();
      NDArray y;
      {
        const autograd::RecordScope record;
        const Shape along{1, 6, 1, 1};
        y = whole ? convolution_fused(v[0], v[1], {v[2], v[3], v[4]}, {.activation = "relu"})
                  : relu(convolution(v[0], v[1], {}) * v[2].reshape(along) + v[3].reshape(along) + v[4]);
      }
      y.backward();
      grads[whole] = {y};
      for (const NDArray& each : v)
        grads[whole].push_back(each.grad());
    }
    for (std::size_t i = 0; i < grads[0].size(); ++i)
      CHECK(differences(grads[1][i], grads[0][i], sum_tolerance(dtype)) == "");
  }
}

TEST_CASE("A convolution with what follows it refuses what does not fit, by name", "[conv][fused]") {
  const NDArray x = ones({1, 4, 5, 5}), w = ones({6, 4, 3, 3});
  const auto says = sluice::test::contains("convolution_fused");
  CHECK_THROWS_AS(convolution_fused(x, w, {.scale = ones({5})}), ShapeError);
  CHECK_THROWS_WITH(convolution_fused(x, w, {.shift = ones({6, 1})}), says);
  CHECK_THROWS_AS(convolution_fused(x, w, {.shift = ones({6}, {.dtype = float16})}), DTypeError);
  CHECK_THROWS_AS(convolution_fused(x, w, {.residual = ones({1, 6, 3, 1})}), ShapeError);
  CHECK_THROWS_AS(convolution_fused(x, w, {.residual = ones({1, 6, 3, 3}, {.dtype = float16})}), DTypeError);
  CHECK_THROWS_AS(convolution_fused(x, w, {}, {.activation = "tanh"}), ValueError);
  CHECK_THROWS_AS(convolution_fused(x, ones({6, 3, 3, 3}), {}), ShapeError);
}
