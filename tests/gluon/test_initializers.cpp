// Initialisers beside those of test_init.cpp: what they promise of the numbers, and options.
#include <cmath>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace init = sluice::gluon::init;

namespace {

NDArray array_made(const init::Initializer& initializer, const Shape& shape, DType dtype = float32) {
  random::seed(5);
  const NDArray array = full(shape, 7, {.dtype = dtype});
  initializer(array);
  return array;
}

double deviation(const NDArray& array) {
  return standard_deviation(array.astype(float64)).item<double>();
}

}  // namespace

TEST_CASE("Orthogonal weights have orthogonal rows or columns of one length", "[gluon][init]") {
  for (const DType dtype : {float32, float64}) {
    for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}, Shape{6, 6}, Shape{4, 3, 2, 2}, Shape{1, 5}}) {
      for (const char* const type : {"normal", "uniform"}) {
        CAPTURE(shape, type);
        const NDArray w =
            array_made(init::Orthogonal({.scale = 3, .rand_type = type}), shape, dtype).reshape({shape[0], -1});
        const NDArray product = w.shape()[0] <= w.shape()[1] ? matmul(w, w.T()) : matmul(w.T(), w);
        const NDArray wanted =
            one_hot(arange(0, static_cast<double>(product.shape()[0]), 1, {.dtype = int64}), product.shape()[0]) * 9;
        CHECK(differences(product, wanted.astype(dtype), {1e-5, 1e-5}) == "");
      }
    }
  }
  CHECK(deviation(array_made(init::Orthogonal(), {16, 4096})) == Approx(1.414 / 64).epsilon(0.05));
  // Both signs are as likely in each place: R's diagonal does not choose.
  int positive = 0;
  random::seed(1);
  for (int i = 0; i < 64; ++i) {
    const NDArray one = zeros({1, 1});
    init::Orthogonal()(one);
    positive += one.item<float>() > 0 ? 1 : 0;
  }
  CHECK((positive > 16 && positive < 48));
  CHECK(array_made(init::Orthogonal(), {0, 3}).size() == 0);
  CHECK_THROWS_AS(array_made(init::Orthogonal(), {3}), ShapeError);
  CHECK_THROWS_AS(init::Orthogonal({.scale = NAN}), ValueError);
  CHECK_THROWS_AS(init::Orthogonal({.rand_type = "gaussian"}), ValueError);
}

TEST_CASE("MSRAPrelu is Xavier's normal of the magnitude that a slope asks for", "[gluon][init]") {
  const Shape shape{64, 32, 3, 3};
  const auto check = [&](const init::MSRAPrelu& initializer, const char* factor, double magnitude) {
    const init::Xavier same({.rnd_type = "gaussian", .factor_type = factor, .magnitude = magnitude});
    CHECK(values(array_made(initializer, shape)) == values(array_made(same, shape)));
  };
  check(init::MSRAPrelu(), "avg", 2 / (1 + 0.0625));
  check(init::MSRAPrelu({.factor_type = "in", .slope = 0}), "in", 2);
  CHECK_THROWS_AS(init::MSRAPrelu({.factor_type = "both"}), ValueError);
  CHECK_THROWS_AS(init::MSRAPrelu({.slope = INFINITY}), ValueError);
}

TEST_CASE("TruncNorm keeps within two deviations", "[gluon][init]") {
  for (const DType dtype : {float32, float16, float64}) {
    const NDArray w = array_made(init::TruncNorm(1, 0.5), {200, 200}, dtype).astype(float64);
    CHECK(min(w).item<double>() >= 0);
    CHECK(max(w).item<double>() <= 2);
    CHECK(max(w).item<double>() > 1.95);
    CHECK(mean(w).item<double>() == Approx(1).margin(0.01));
    CHECK(deviation(w) == Approx(0.5 * 0.8796).margin(0.01));  // of the standard normal cut at 2: sqrt(0.7737)
  }
  CHECK(values(array_made(init::TruncNorm(3, 0), {2})) == std::vector<float>{3, 3});
  CHECK_THROWS_AS(init::TruncNorm(0, -1), ValueError);
  CHECK_THROWS_AS(init::TruncNorm(NAN, 1), ValueError);
}

TEST_CASE("Bilinear weights are tents, and an LSTM's bias is that of its forget gate", "[gluon][init]") {
  // A tent over four places, as MXNet's: 0.25, 0.75, 0.75, 0.25 in each direction.
  const std::vector<double> tent = {0.25, 0.75, 0.75, 0.25};
  const NDArray w = array_made(init::Bilinear(), {2, 1, 4, 4});
  const auto found = w.to_vector<double>();
  for (std::size_t i = 0; i < 32; ++i)
    CHECK(found[i] == tent[i / 4 % 4] * tent[i % 4]);
  CHECK(
      array_made(init::Bilinear(), {1, 1, 3, 3}).to_vector<double>() ==
      std::vector<double>{0.0625, 0.1875, 0.1875, 0.1875, 0.5625, 0.5625, 0.1875, 0.5625, 0.5625});
  CHECK_THROWS_AS(array_made(init::Bilinear(), {1, 1, 3, 4}), ShapeError);
  CHECK_THROWS_AS(array_made(init::Bilinear(), {3, 3}), ShapeError);
  CHECK(values(array_made(init::LSTMBias(), {8})) == std::vector<float>{0, 0, 1, 1, 0, 0, 0, 0});
  CHECK(values(array_made(init::LSTMBias(2), {4}, float16)) == std::vector<float>{0, 2, 0, 0});
  CHECK_THROWS_AS(array_made(init::LSTMBias(), {6}), ShapeError);
  CHECK_THROWS_AS(array_made(init::LSTMBias(), {2, 4}), ShapeError);
}

TEST_CASE("Mixed takes the first pattern that a parameter's name contains", "[gluon][init]") {
  const auto network = [] {
    gluon::nn::Sequential net;
    net.add(gluon::nn::Dense(3));
    net.add(gluon::nn::Dense(2));
    return net;
  };
  gluon::nn::Sequential net = network();
  net.initialize(init::Mixed({{"^0\\.weight$", init::One()}, {"weight", init::Constant(2)}, {"", init::Constant(3)}}));
  net(zeros({1, 4}));
  const gluon::ParameterDict found = net.collect_params();
  const auto first = [&](const char* name) { return values(found.find(name)->data())[0]; };
  CHECK(first("0.weight") == 1);
  CHECK(first("1.weight") == 2);
  CHECK(first("0.bias") == 0);  // which has an initialiser of its own
  // Patterns for those alone that have none of their own, and are not initialised.
  gluon::nn::Sequential normed;
  normed.add(gluon::nn::Dense(3, {.in_units = 2}), gluon::nn::BatchNorm({.in_channels = 3}));
  normed.initialize(init::Mixed({{"weight", init::One()}}));
  CHECK(normed.collect_params().find("1.gamma")->is_initialized());
  normed.initialize(init::Mixed({{"nothing", init::One()}}));
  CHECK_THROWS_AS(normed.initialize(init::Mixed({{"nothing", init::One()}}), cpu(), true), ValueError);
  // One that nothing matches: nothing was initialised.
  gluon::nn::Sequential other = network();
  CHECK_THROWS_AS(other.initialize(init::Mixed({{"0", init::One()}})), ValueError);
  for (const auto& [name, parameter] : other.collect_params()) {
    CHECK_FALSE(parameter.is_initialized());
    CHECK_FALSE(parameter.is_deferred());
  }
  CHECK_THROWS_AS(init::Mixed({{"(", init::One()}}), ValueError);
  CHECK_THROWS_AS(init::Mixed({{"", nullptr}}), ValueError);
}
