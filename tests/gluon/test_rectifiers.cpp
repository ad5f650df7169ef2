// Layers around one function of elements: values_of, PReLU's parameter and its gradient, hybridized, and what they
// refuse.
#include <cmath>
#include <string>
#include <vector>

#include <sluice/gluon/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
namespace nn = gluon::nn;

namespace {

const NDArray& points() {
  static const NDArray x = array<float>({-3, -0.5, 0, 0.25, 2, 40});
  return x;
}

std::vector<float> values_of(const NDArray& array) {
  return array.to_vector<float>();
}

}  // namespace

TEST_CASE("layers of one function are that function", "[gluon][layers]") {
  const NDArray& x = points();
  CHECK(values_of(nn::LeakyReLU(0.25)(x)) == values_of(leaky_relu(x, 0.25)));
  CHECK(values_of(nn::LeakyReLU(0)(x)) == values_of(relu(x)));
  CHECK(values_of(nn::ELU()(x)) == values_of(elu(x, 1)));
  CHECK(values_of(nn::ELU(0.5)(x)) == values_of(elu(x, 0.5)));
  CHECK(values_of(nn::SELU()(x)) == values_of(selu(x)));
  CHECK(values_of(nn::GELU()(x)) == values_of(gelu(x)));
  CHECK(values_of(nn::GELU(nn::GELUForm::tanh)(x)) == values_of(gelu_tanh(x)));
  CHECK(values_of(nn::SiLU()(x)) == values_of(silu(x)));
  CHECK(values_of(nn::Swish()(x)) == values_of(silu(x)));
  CHECK(test::differences(nn::Swish(2)(x), x * sigmoid(2 * x)) == "");
  CHECK_THROWS_AS(nn::LeakyReLU(-0.1), ValueError);
  CHECK_THROWS_AS(nn::LeakyReLU(NAN), ValueError);
}

TEST_CASE("activations by name have the numbers that their functions have by name", "[gluon][layers]") {
  const NDArray& x = points();
  const std::vector<std::pair<const char*, NDArray>> named = {
      {"log_sigmoid", log_sigmoid(x)},
      {"mish", mish(x)},
      {"gelu_tanh", gelu_tanh(x)},
      {"swish", silu(x)},
      {"selu", selu(x)},
      {"hard_swish", hard_swish(x)},
      {"relu6", relu6(x)},
      {"hard_sigmoid", hard_sigmoid(x, 0.2, 0.5)},
      {"elu", elu(x, 1)},
      {"leaky_relu", leaky_relu(x, 0.01)}};
  for (const auto& [name, want] : named) {
    CAPTURE(name);
    CHECK(values_of(nn::Activation(name)(x)) == values_of(want));
    nn::Dense dense(1, {.activation = name, .use_bias = false, .weight_initializer = gluon::init::One()});
    dense.initialize();
    CHECK(test::differences(dense(x.reshape({6, 1})).reshape({6}), want) == "");
  }
  CHECK_THROWS_WITH(nn::Activation("gelu_erf"), test::contains("gelu_erf") && test::contains("gelu_tanh"));
}

TEST_CASE("PReLU learns its slopes, one or one a channel", "[gluon][layers]") {
  nn::PReLU one;
  one.initialize();
  CHECK(values_of(one(points())) == values_of(leaky_relu(points(), 0.25)));
  CHECK(one.own_parameter("alpha").shape() == Shape{1});

  nn::PReLU many({.alpha_initializer = gluon::init::Constant(0.5), .in_channels = 3});
  many.initialize();
  const NDArray x = test::random_array({2, 3, 4, 5}, 3, -2, 2);
  {
    const autograd::RecordScope record;
    many(x).backward();
  }
  CHECK(test::differences(many(x), leaky_relu(x, 0.5)) == "");
  CHECK(test::differences(many.own_parameter("alpha").grad(), sum(minimum(x, 0), {0, 2, 3})) == "");
  many.own_parameter("alpha").data().assign(array<float>({0, 1, 2}));
  const NDArray slopes = array<float>({0, 1, 2}).reshape({3, 1, 1});
  CHECK(test::differences(many(x), where(x > 0, x, x * slopes)) == "");
  CHECK(many(zeros({0, 3, 2})).shape() == Shape{0, 3, 2});
  CHECK(test::differences(many(x.transpose({2, 1, 0, 3})), where(x > 0, x, x * slopes).transpose({2, 1, 0, 3})) == "");
}

TEST_CASE("PReLU gives hybridized what it gives alone, for batches of other sizes", "[gluon][layers]") {
  nn::Sequential net, plain;
  for (nn::Sequential* made : {&net, &plain}) {
    made->add(nn::PReLU({.in_channels = 3}), nn::Swish(2), nn::GELU(nn::GELUForm::tanh), nn::SELU());
    made->initialize();
  }
  net.hybridize();
  for (const std::int64_t batch : {4, 2, 4, 1}) {
    const NDArray x = test::random_array({batch, 3, 5}, static_cast<std::uint64_t>(batch), -2, 2);
    CHECK(test::differences(net(x), plain(x)) == "");
  }
}

TEST_CASE("PReLU refuses what its slopes do not fit", "[gluon][layers]") {
  CHECK_THROWS_AS(nn::PReLU({.in_channels = 0}), ValueError);
  nn::PReLU layer({.in_channels = 3});
  layer.initialize();
  CHECK_THROWS_AS(layer(ones({2, 4, 5})), ShapeError);
  CHECK_THROWS_AS(layer(ones({2, 1, 5})), ShapeError);  // would broadcast
  CHECK_THROWS_WITH(layer(ones({3})), test::contains("PReLU") && test::contains("(3,)"));
  try {
    (void)layer(ones({2, 4}));
  } catch (const ShapeError&) {
    CHECK_THROWS_AS(layer(ones({2, 2})), ShapeError);
  }
  CHECK(layer(ones({2, 3})).shape() == Shape{2, 3});
}
