#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

TEST_CASE("Dense multiplies, adds and activates as a plain loop does", "[gluon][layers]") {
  for (const char* activation : {"", "relu", "tanh"}) {
    nn::Dense layer(4, {.activation = activation, .in_units = 6});
    layer.initialize();
    layer.own_parameter("weight").set_data(pattern_array({4, 6}));
    layer.own_parameter("bias").set_data(pattern_array({4}, 7));
    const std::vector<float> x = pattern(18, 3), w = pattern(24), b = pattern(4, 7);
    std::vector<float> expected;
    for (std::size_t n = 0; n < 3; ++n) {
      for (std::size_t u = 0; u < 4; ++u) {
        float y = b[u];
        for (std::size_t i = 0; i < 6; ++i)
          y += x[n * 6 + i] * w[u * 6 + i];
        const std::string name = activation;
        expected.push_back(name == "relu" ? std::max(y, 0.0f) : name == "tanh" ? std::tanh(y) : y);
      }
    }
    const NDArray y = layer(array(x, {3, 2, 3}));
    CHECK(y.shape() == Shape{3, 4});
    check_near(values(y), expected);
  }
}

TEST_CASE("Dense without bias, and without flatten", "[gluon][layers]") {
  nn::Dense layer(5, {.use_bias = false, .flatten = false});
  layer.initialize(gluon::init::One());
  CHECK(layer.collect_params().names() == "weight");
  const NDArray y = layer(ones({2, 3, 4}));
  CHECK(y.shape() == Shape{2, 3, 5});
  CHECK(values(y) == std::vector<float>(30, 4));
  CHECK_THROWS_AS(nn::Dense(0), ValueError);
  CHECK_THROWS_AS(nn::Dense(2, {.in_units = -1}), ValueError);
  CHECK_THROWS_WITH(nn::Dense(2, {.activation = "rellu"}), contains("rellu") && contains("sigmoid"));
}

TEST_CASE("Conv2D convolves as a plain loop does", "[gluon][layers]") {
  nn::Conv2D layer(4, {3, 2}, {.strides = {2, 1}, .padding = 1, .groups = 2, .activation = "relu"});
  layer.initialize();
  const std::vector<float> x = pattern(2 * 4 * 5 * 6, 3), w = pattern(4 * 2 * 3 * 2), b = pattern(4, 7);
  CHECK(layer.own_parameter("weight").shape() == Shape{4, 0, 3, 2});
  layer.own_parameter("weight").set_data(array(w, {4, 2, 3, 2}));
  layer.own_parameter("bias").set_data(array(b, {4}));
  const NDArray y = layer(array(x, {2, 4, 5, 6}));
  REQUIRE(y.shape() == Shape{2, 4, 3, 7});
  std::vector<float> expected;
  for (int n = 0; n < 2; ++n) {
    for (int o = 0; o < 4; ++o) {
      for (int row = 0; row < 3; ++row) {
        for (int column = 0; column < 7; ++column) {
          float sum = b[static_cast<std::size_t>(o)];
          for (int c = 0; c < 2; ++c) {
            for (int i = 0; i < 6; ++i) {
              const int h = row * 2 - 1 + i / 2, v = column - 1 + i % 2;
              if (h >= 0 && h < 5 && v >= 0 && v < 6)
                sum += w[static_cast<std::size_t>((o * 2 + c) * 6 + i)] *
                       x[static_cast<std::size_t>(((n * 4 + o / 2 * 2 + c) * 5 + h) * 6 + v)];
            }
          }
          expected.push_back(std::max(sum, 0.0f));
        }
      }
    }
  }
  check_near(values(y), expected, 1e-4);
}

TEST_CASE("layers over images pad each side as they are told", "[gluon][layers]") {
  const NDArray x = array(pattern(2 * 2 * 4 * 3, 5), {2, 2, 4, 3});
  nn::Conv2D whole(3, 3, {.padding = {1, 2, 0, 3}});
  whole.initialize();
  const NDArray y = whole(x);
  REQUIRE(y.shape() == Shape{2, 3, 3, 6});
  nn::Conv2D bare(3, 3);
  bare.initialize();
  bare.share_parameters(whole.collect_params());
  const NDArray around = pad(x, {{0, 0}, {0, 0}, {1, 0}, {2, 3}});
  check_near(values(y), values(bare(around)), 1e-5);
  nn::AvgPool2D average(2, {.strides = 1, .padding = {0, 1, 1, 0}});
  check_near(
      values(average(x)), values(nn::AvgPool2D(2, {.strides = 1})(pad(x, {{0, 0}, {0, 0}, {0, 1}, {1, 0}}))), 1e-6);
  CHECK(nn::MaxPool2D(2, {.padding = {0, 0, 1, 1}})(x).shape() == Shape{2, 2, 2, 2});
  CHECK_THROWS_WITH(nn::Conv2D(3, 3, {.padding = {0, 0, -1, 0}}), contains("(0, 0, -1, 0)"));
  CHECK_THROWS_AS(nn::MaxPool2D(2, {.padding = {0, 0, 0, -1}}), ValueError);
}

TEST_CASE("Conv2D refuses what it cannot be", "[gluon][layers]") {
  CHECK_THROWS_AS(nn::Conv2D(3, 3, {.groups = 2}), ValueError);
  CHECK_THROWS_AS(nn::Conv2D(0, 3), ValueError);
  CHECK_THROWS_AS(nn::Conv2D(3, 0), ValueError);
  CHECK_THROWS_AS(nn::Conv2D(3, 3, {.strides = 0}), ValueError);
  CHECK_THROWS_AS(nn::Conv2D(3, 3, {.padding = -1}), ValueError);
  nn::Conv2D layer(2, 3);
  layer.initialize();
  CHECK_THROWS_AS(layer(zeros({3, 3})), ShapeError);
  CHECK_THROWS_AS(layer(zeros({1, 1, 2, 2})), ShapeError);
}

TEST_CASE("pooling layers take the largest and the mean", "[gluon][layers]") {
  const NDArray x = array<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 1, 4, 4});
  nn::MaxPool2D largest(2);
  nn::AvgPool2D average;
  CHECK(values(largest(x)) == std::vector<float>{6, 8, 14, 16});
  CHECK(values(average(x)) == std::vector<float>{3.5, 5.5, 11.5, 13.5});
  nn::MaxPool2D overlapping({2, 3}, {.strides = 1});
  CHECK(overlapping(x).shape() == Shape{1, 1, 3, 2});
  nn::AvgPool2D inside(2, {.padding = 1, .count_include_pad = false});
  CHECK(values(inside(x)).front() == 1);
  nn::AvgPool2D around(2, {.padding = 1});
  CHECK(values(around(x)).front() == 0.25f);
  CHECK_THROWS_AS(nn::MaxPool2D(0), ValueError);
  CHECK_THROWS_AS(nn::AvgPool2D(2, {.strides = 0}), ValueError);
}

TEST_CASE("BatchNorm normalises by the batch in training and by its history otherwise", "[gluon][layers]") {
  nn::BatchNorm layer({.momentum = 0.5});
  layer.initialize();
  CHECK(layer.collect_params().names() == "gamma, beta, running_mean, running_var");
  const std::vector<float> x = {1, 10, 3, 30, 5, 50, 7, 70};  // (4, 2)
  NDArray y;
  {
    autograd::RecordScope record;
    y = layer(array(x, {4, 2}));
  }
  // Means 4 and 40, biased variances 5 and 500.
  std::vector<float> expected;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double mean = i % 2 == 0 ? 4 : 40, variance = i % 2 == 0 ? 5 : 500;
    expected.push_back(static_cast<float>((x[i] - mean) / std::sqrt(variance + 1e-5)));
  }
  check_near(values(y), expected);
  check_near(values(layer.own_parameter("running_mean").data()), {2, 20});
  check_near(values(layer.own_parameter("running_var").data()), {3, 250.5});
  check_near(values(layer(array<float>({2, 20}, {1, 2}))), {0, 0});
  y.backward();
  check_near(values(layer.own_parameter("beta").grad()), {4, 4});
  CHECK_THROWS_AS(layer.own_parameter("running_mean").grad(), ValueError);
  CHECK_THROWS_AS(nn::BatchNorm({.epsilon = 0}), ValueError);
  CHECK_THROWS_AS(nn::BatchNorm({.momentum = 2}), ValueError);
}

TEST_CASE("BatchNorm leaves out scale and centre when asked, and stays float32 under half types", "[gluon][layers]") {
  nn::BatchNorm layer({.center = false, .scale = false, .in_channels = 2});
  layer.initialize();
  CHECK(layer.own_parameter("gamma").grad_req() == GradReq::null);
  CHECK(layer.own_parameter("beta").grad_req() == GradReq::null);
  layer.cast(float16);
  CHECK(layer.own_parameter("gamma").dtype() == float32);
  CHECK(layer(ones({3, 2}, {.dtype = float16})).dtype() == float16);
}

TEST_CASE("Dropout works in training alone", "[gluon][layers]") {
  nn::Dropout layer(0.25);
  const NDArray x = ones({10000});
  CHECK(values(layer(x)) == values(x));
  autograd::TrainScope training;
  const std::vector<float> y = values(layer(x));
  const auto dropped = std::count(y.begin(), y.end(), 0.0f);
  CHECK(dropped == Approx(2500).margin(200));
  CHECK(std::count(y.begin(), y.end(), 1.0f / 0.75f) == 10000 - dropped);
  CHECK_THROWS_AS(nn::Dropout(1.5), ValueError);
}

TEST_CASE("small layers do what their names say", "[gluon][layers]") {
  nn::Flatten flatten;
  CHECK(flatten(zeros({2, 3, 4})).shape() == Shape{2, 12});
  nn::Lambda twice([](const NDArray& x) { return x * 2; });
  CHECK(values(twice(ones({2}))) == std::vector<float>{2, 2});
  CHECK_THROWS_AS(nn::Lambda(nullptr), ValueError);
  const NDArray x = array<float>({-1, 0, 2});
  CHECK(values(nn::Activation("relu")(x)) == std::vector<float>{0, 0, 2});
  CHECK_THROWS_AS(nn::Activation(""), ValueError);
  CHECK_THROWS_AS(nn::Activation("abs"), ValueError);
}

TEST_CASE("an activation is the function of its name, alone and inside other layers", "[gluon][layers]") {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const std::vector<std::pair<const char*, std::function<double(double)>>> functions = {
      {"relu", [](double v) { return std::max(v, 0.0); }},
      {"sigmoid", sigmoid},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"softrelu", [](double v) { return std::log1p(std::exp(v)); }},
      {"softsign", [](double v) { return v / (1 + std::abs(v)); }},
      {"gelu", [](double v) { return v * std::erfc(-v / std::sqrt(2.0)) / 2; }},
      {"silu", [&](double v) { return v * sigmoid(v); }},
  };
  const std::vector<float> x = {-3, -1.5f, -0.25f, 0, 0.5f, 2, 4};
  for (const auto& [name, function] : functions) {
    INFO(name);
    std::vector<float> expected;
    for (const float v : x)
      expected.push_back(static_cast<float>(function(static_cast<double>(v))));
    check_near(values(nn::Activation(name)(array(x, {7}))), expected);
    nn::Dense dense(1, {.activation = name, .use_bias = false, .weight_initializer = gluon::init::One()});
    dense.initialize();
    check_near(values(dense(array(x, {7, 1}))), expected);
    nn::Conv2D conv(1, 1, {.activation = name, .use_bias = false, .weight_initializer = gluon::init::One()});
    conv.initialize();
    check_near(values(conv(array(x, {1, 1, 7, 1}))), expected);
  }
}

TEST_CASE("BatchNorm goes on after a file that holds some of its parameters", "[gluon][layers]") {
  TemporaryFolder folder;
  const NDArray x = array<float>({1, 10, 3, 30}, {2, 2});
  const std::vector<const char*> names = {"gamma", "beta", "running_mean", "running_var"};
  for (const char* name : names) {
    INFO(name);
    save(folder / "part.npz", {{name, full({2}, 3)}});
    nn::BatchNorm layer;
    layer.initialize();
    layer.load_parameters(folder / "part.npz", {.allow_missing = true});
    CHECK(layer(x).shape() == Shape{2, 2});
    for (const char* other : names) {
      const bool one = std::string(other) == "gamma" || std::string(other) == "running_var";
      const float expected = std::string(other) == name ? 3.0f : one ? 1.0f : 0.0f;
      CHECK(values(layer.own_parameter(other).data()) == std::vector<float>{expected, expected});
    }
  }
  nn::BatchNorm layer;
  layer.initialize();
  save(folder / "part.npz", {{"gamma", full({3}, 3)}});
  layer.load_parameters(folder / "part.npz", {.allow_missing = true});
  CHECK_THROWS_AS(layer(x), ShapeError);
}

TEST_CASE("a first batch without samples makes the shapes known and moves no statistics", "[gluon][layers]") {
  nn::Sequential net;
  net.add(nn::Conv2D(2, 3), nn::BatchNorm(), nn::MaxPool2D(2), nn::Dense(4), nn::BatchNorm(), nn::Dense(3));
  net.initialize(gluon::init::Xavier());
  NDArray y;
  {
    autograd::RecordScope record;
    y = net(zeros({0, 1, 8, 8}));
  }
  CHECK(y.shape() == Shape{0, 3});
  y.backward();
  const auto parameters = net.collect_params();
  CHECK(parameters["3.weight"].shape() == Shape{4, 18});
  for (const char* name : {"1.running_mean", "4.running_mean", "1.gamma", "4.gamma"})
    CHECK(std::isfinite(values(parameters[name].data())[0]));
  CHECK(values(parameters["4.running_mean"].data()) == std::vector<float>(4, 0));
  CHECK(values(parameters["4.running_var"].data()) == std::vector<float>(4, 1));
  CHECK(values(parameters["3.weight"].grad()) == std::vector<float>(72, 0));
  CHECK(net(ones({2, 1, 8, 8})).shape() == Shape{2, 3});
  nn::Dense featureless(2);
  featureless.initialize();
  CHECK_THROWS_AS(featureless(zeros({3, 0})), ShapeError);
}
