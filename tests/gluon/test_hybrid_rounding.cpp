// Hybridized networks that may round once where calls one by one round often.
#include <algorithm>

#include <sluice/operator/api.h>

#include "tests/gluon/support.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;

/// relu(norm(conv(relu(norm(conv(x))))) + x).
class Residual : public gluon::Block {
 public:
  explicit Residual(std::int64_t channels)
      : first_(child("first", nn::Conv2D(channels, 3, {.padding = {1, 1}}))),
        first_norm_(child("first_norm", nn::BatchNorm())),
        second_(child("second", nn::Conv2D(channels, 3, {.padding = {1, 1}, .use_bias = false}))),
        second_norm_(child("second_norm", nn::BatchNorm())) {}

 protected:
  NDArray forward(const NDArray& x) const override {
    return relu(second_norm_(second_(relu(first_norm_(first_(x))))) + x);
  }

 private:
  gluon::Child<nn::Conv2D> first_;
  gluon::Child<nn::BatchNorm> first_norm_;
  gluon::Child<nn::Conv2D> second_;
  gluon::Child<nn::BatchNorm> second_norm_;
};

nn::Sequential network() {
  nn::Sequential net;
  net.add(nn::Conv2D(8, 3, {.activation = "relu"}), Residual(8), nn::MaxPool2D(2), Residual(8), nn::Dense(10));
  return net;
}

NDArray images(std::int64_t n, int start, DType dtype, Device device) {
  return array(pattern(n * 3 * 12 * 12, start), {n, 3, 12, 12}).astype(dtype).to(device);
}

// Statistics that are some, and parameters that are not what they begin with.
std::vector<float> train(nn::Sequential& net, Device device, int steps, const gluon::TrainStepOptions& options) {
  std::vector<float> losses;
  Trainer trainer(net.collect_params(), Adam());
  const SoftmaxCrossEntropyLoss loss;
  gluon::TrainStep step(net, loss, trainer, options);
  const NDArray labels = array(std::vector<std::int32_t>{3, 1, 4, 1, 5, 9, 2, 6}, {8}, device);
  for (int i = 0; i < steps; ++i)
    losses.push_back(mean(step(images(8, i, float32, device), labels).losses).item<float>());
  return losses;
}

std::int64_t count(const graph::Graph& graph, const std::string& name) {
  return std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == name; });
}

const gluon::HybridOptions k_once{.plan = {.rounding = graph::Rounding::once}};

void check_prediction(Device device) {
  for (const DType dtype : {float32, float16}) {
    CAPTURE(name_of(dtype));
    Engine engine({.seed = 5});
    const EngineScope scope(engine);
    nn::Sequential net = network();
    net.initialize(gluon::init::Xavier(), device);
    train(net, device, 3, {});
    net.cast(dtype);
    const NDArray x = images(4, 7, dtype, device);
    const std::vector<float> by_hand = values(net(x).astype(float32));
    net.hybridize();
    CHECK(values(net(x).astype(float32)) == by_hand);
    CHECK(count(net.hybrid_plan()->graph(), "batch_norm_fold") == 0);
    net.hybridize(true, k_once);
    for (int run = 0; run < 3; ++run)
      check_near(values(net(x).astype(float32)), by_hand, dtype == float32 ? 1e-4 : 3e-2);
    const graph::Graph& made = net.hybrid_plan()->graph();
    CHECK(count(made, "batch_norm_fold") == 4);
    CHECK(count(made, "convolution_fused") == 4);  // the first layer's kernel has bias and relu anyway
    CHECK(count(made, "batch_norm_predict") + count(made, "add") + count(made, "relu") + count(made, "fused") == 0);
  }
}

void check_training(Device device) {
  std::vector<float> losses[2];
  for (const bool once : {false, true}) {
    Engine engine({.seed = 5});
    const EngineScope scope(engine);
    nn::Sequential net = network();
    net.initialize(gluon::init::Xavier(), device);
    losses[once ? 1 : 0] =
        train(net, device, 4, once ? gluon::TrainStepOptions{.plan = k_once.plan} : gluon::TrainStepOptions{});
  }
  check_near(losses[1], losses[0], 1e-3);
  CHECK(losses[0].back() < losses[0].front());
}

}  // namespace

TEST_CASE("A hybridized residual network rounds once only where it is told to", "[gluon][graph][hybrid][epilogue]") {
  check_prediction(cpu());
  check_training(cpu());
}

TEST_CASE(
    "A hybridized residual network on a GPU rounds once only where it is told to",
    "[gluon][graph][hybrid][epilogue][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_prediction(gpu(0));
  check_training(gpu(0));
}
