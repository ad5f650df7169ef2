// Networks under amp::autocast(): what they give beside float32, traced or not, and what they learn.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/gluon/amp/convert.h>
#include <sluice/gluon/amp/grad_scaler.h>
#include <sluice/operator/autocast.h>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;

nn::Sequential network(const std::string& name) {
  nn::Sequential net;
  if (name == "mlp")
    net.add(nn::Dense(24, {.activation = "relu"}), nn::LayerNorm(), nn::Dense(10));
  else
    net.add(nn::Conv2D(4, 3), nn::BatchNorm(), nn::Activation("relu"), nn::MaxPool2D(2), nn::Dense(10));
  return net;
}

std::vector<float> floats(const NDArray& array) {
  return values(array.astype(float32));
}

/// The largest difference beside the largest value.
double difference(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  double apart = 0, largest = 1e-30;
  for (std::size_t i = 0; i < found.size(); ++i) {
    REQUIRE(std::isfinite(found[i]));
    apart = std::max(apart, static_cast<double>(std::abs(found[i] - expected[i])));
    largest = std::max(largest, static_cast<double>(std::abs(expected[i])));
  }
  return apart / largest;
}

struct Pass {
  DType prediction = float32, loss = float32;
  std::vector<float> predictions = {};
  std::map<std::string, std::vector<float>> gradients = {};
};

Pass pass_of(const nn::Sequential& net, std::optional<DType> low, int seed = 1) {
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  const auto [x, y] = synthetic_batch(8, 10, seed, cpu());
  NDArray losses, predictions;
  {
    const amp::AutocastScope cast(low);
    const autograd::RecordScope record;
    predictions = net(x);
    losses = loss(predictions, y);
  }
  losses.backward();
  Pass pass{predictions.dtype(), losses.dtype(), floats(predictions), {}};
  for (const auto& [name, parameter] : net.collect_params()) {
    if (parameter.grad_req() == GradReq::null)
      continue;
    CHECK(parameter.data().dtype() == float32);
    CHECK(parameter.grad().dtype() == float32);
    pass.gradients[name] = values(parameter.grad());
  }
  return pass;
}

bool are_same(const Pass& a, const Pass& b) {
  return a.prediction == b.prediction && a.loss == b.loss && a.predictions == b.predictions &&
         a.gradients == b.gradients;
}

nn::Sequential made(const std::string& name) {
  Engine::current().seed(5);
  nn::Sequential net = network(name);
  net.initialize(gluon::init::Xavier());
  (void)net(synthetic_batch(8, 10, 1, cpu()).first);
  return net;
}

}  // namespace

TEST_CASE("A network under autocast gives what float32 gives, as far as the type tells", "[gluon][amp]") {
  for (const char* const name : {"mlp", "cnn"}) {
    const nn::Sequential net = made(name);
    const Pass wide = pass_of(net, std::nullopt);
    CHECK(wide.prediction == float32);
    for (const auto& [low, tolerance] : {std::pair(bfloat16, 0.06), std::pair(float16, 0.008)}) {
      CAPTURE(name, low);
      const Pass narrow = pass_of(net, low);
      CHECK(narrow.prediction == low);
      CHECK(narrow.loss == float32);
      const double apart = difference(narrow.predictions, wide.predictions);
      CHECK(apart > 0);
      CHECK(apart < tolerance);
      for (const auto& [parameter, gradient] : wide.gradients) {
        CAPTURE(parameter);
        const bool is_rounding = name == std::string("cnn") && parameter == "0.bias";  // batch norm takes it away
        CHECK((is_rounding || difference(narrow.gradients.at(parameter), gradient) < 3 * tolerance));
      }
    }
  }
}

TEST_CASE("A hybridized network has a program for each type of autocast, and uses it again", "[gluon][amp][hybrid]") {
  for (const char* const name : {"mlp", "cnn"}) {
    CAPTURE(name);
    const nn::Sequential net = made(name);
    nn::Sequential traced = made(name);
    traced.hybridize();
    std::size_t programs = 0;
    for (const auto& [low, is_new] : std::vector<std::pair<std::optional<DType>, bool>>{
             {std::nullopt, true},
             {bfloat16, true},
             {std::nullopt, false},
             {float16, true},
             {bfloat16, false},
             {float16, false}}) {
      for (int seed = 0; seed < 2; ++seed)
        CHECK(are_same(pass_of(traced, low, seed), pass_of(net, low, seed)));
      programs += is_new ? 1 : 0;
      CHECK(traced.hybrid_traces() == programs);
    }
  }
}

TEST_CASE("A block that is traced in a scope runs in it alone", "[gluon][amp][hybrid]") {
  nn::Sequential net = made("mlp");
  net.hybridize();
  const NDArray x = synthetic_batch(8, 10, 1, cpu()).first;
  const std::vector<float> wide = floats(net(x));
  {
    const auto cast = amp::autocast(float16);
    CHECK(net(x).dtype() == float16);
    const auto off = amp::autocast(float16, false);
    CHECK(net(x).dtype() == float32);
    CHECK(floats(net(x)) == wide);
  }
  CHECK(floats(net(x)) == wide);
  CHECK(net.hybrid_traces() == 2);
  // A scope within forward is part of the program.
  CHECK_THROWS_AS(
      [&] {
        const auto cast = amp::autocast(bfloat16);
        net(ones({2, 3}));
      }(),
      ShapeError);
  CHECK_FALSE(amp::autocast_dtype().has_value());
}

TEST_CASE("Weights that layers share are cast once, traced or not, and summed alike", "[gluon][amp][hybrid]") {
  struct Twice final : gluon::Block {
    const gluon::Parameter& weight;
    Twice() : weight(parameter("weight", {.shape = {6, 6}, .init = gluon::init::Xavier()})) {}
    NDArray forward(const NDArray& x) const override {
      const NDArray once = tanh(matmul(x, weight.data()));
      return matmul(once, weight.data());
    }
  };
  const auto gradient_of = [](bool hybrid) {
    Engine::current().seed(2);
    Twice net;
    net.initialize();
    if (hybrid)
      net.hybridize();
    NDArray loss;
    {
      const auto cast = amp::autocast(bfloat16);
      const autograd::RecordScope record;
      loss = sum(net(pattern_array({5, 6})));
    }
    loss.backward();
    return values(net.weight.grad());
  };
  CHECK(gradient_of(true) == gradient_of(false));
}

TEST_CASE("Training under autocast ends with the loss of float32", "[gluon][amp][training]") {
  const auto losses_of = [](const char* name, std::optional<DType> low, bool as_graph) {
    nn::Sequential net = made(name);
    const gluon::loss::SoftmaxCrossEntropyLoss loss;
    Trainer trainer(net.collect_params(), Adam({.learning_rate = 0.01}));
    amp::init_trainer(trainer, {.enabled = low == float16});
    gluon::TrainStep step(net, loss, trainer);
    std::vector<float> means;
    for (int i = 0; i < 40; ++i) {
      const auto [x, y] = synthetic_batch(32, 10, i, cpu());
      const amp::AutocastScope cast(low);
      NDArray losses;
      if (as_graph) {
        losses = step(x, y).losses;
      } else {
        {
          const autograd::RecordScope record;
          losses = loss(net(x), y);
        }
        amp::scale_loss(losses, trainer).backward();
        trainer.step(32);
      }
      means.push_back(mean(losses.detach()).item<float>());
    }
    return means;
  };
  for (const char* const name : {"mlp", "cnn"}) {
    const std::vector<float> wide = losses_of(name, std::nullopt, true);
    REQUIRE(wide.back() < 0.5F * wide.front());
    for (const DType low : {bfloat16, float16}) {
      CAPTURE(name, low);
      const std::vector<float> narrow = losses_of(name, low, true);
      CHECK(narrow == losses_of(name, low, false));
      CHECK(narrow.back() == Approx(wide.back()).margin(0.1 * wide.front()));
    }
  }
}

TEST_CASE("convert_block casts all but norms, and such networks train by masters", "[gluon][amp]") {
  for (const DType low : {bfloat16, float16}) {
    Engine::current().seed(5);
    nn::Sequential net = network("cnn");
    net.add(nn::LayerNorm(), nn::Dense(10));
    net.initialize(gluon::init::Xavier());
    (void)net(synthetic_batch(8, 10, 1, cpu()).first);
    amp::convert_block(net, low);
    for (const auto& [name, parameter] : net.collect_params())
      CHECK(parameter.dtype() == (name.starts_with("1.") || name.starts_with("5.") ? float32 : low));
    Trainer trainer(net.collect_params(), SGD({.learning_rate = 1e-4, .momentum = 0.9, .multi_precision = true}));
    amp::init_trainer(trainer, {.init_scale = 128});
    const gluon::loss::SoftmaxCrossEntropyLoss loss;
    std::vector<float> means;
    for (int i = 0; i < 12; ++i) {
      const auto [x, y] = synthetic_batch(16, 10, 1, cpu());
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = loss(net(x.astype(low)).astype(float32), y);
      }
      amp::scale_loss(losses, trainer).backward();
      trainer.step(16);
      means.push_back(mean(losses.detach()).item<float>());
    }
    CHECK(means.back() < means.front());  // steps that are too small for the type itself
    CHECK(trainer.optimizer().states().at("4.weight.master").dtype() == float32);
    CHECK(trainer.scaler()->clean_steps().item<std::int64_t>() == 12);
  }
  nn::Sequential net = made("mlp");
  CHECK_THROWS_AS(amp::convert_block(net, float32), DTypeError);
  CHECK_THROWS_WITH(amp::convert_block(net, int8), sluice::test::contains("int8"));
}
