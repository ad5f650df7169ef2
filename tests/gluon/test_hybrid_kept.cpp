// What hybridized networks keep of their parameters is made again whatever changed those.
#include <functional>
#include <thread>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/gluon/support.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;

nn::Sequential network(Device device) {
  nn::Sequential net;
  net.add(
      nn::Conv2D(8, 3, {.use_bias = false, .in_channels = 8}),
      nn::BatchNorm({.in_channels = 8}),
      nn::Activation("relu"),
      nn::Conv2D(16, 3, {.in_channels = 8}),
      nn::BatchNorm({.in_channels = 16}),
      nn::Dense(10, {.in_units = 16 * 4 * 4}));
  net.initialize(gluon::init::Xavier(), device);
  return net;
}

NDArray images(int start, DType dtype, Device device) {
  return array(pattern(std::int64_t{4} * 8 * 8 * 8, start), {4, 8, 8, 8}).astype(dtype).to(device);
}

/// A hybridized network beside one that is not and is given the same parameters whenever both are asked.
class Twins {
 public:
  Twins(Device device, DType dtype) : device_(device), dtype_(dtype), net(network(device)), by_hand_(network(device)) {
    net.cast(dtype);
    by_hand_.cast(dtype);
    net.hybridize(true, {.plan = {.rounding = graph::Rounding::once}});
  }

  void check() {
    const ParameterDict from = net.collect_params();
    for (const auto& [name, parameter] : by_hand_.collect_params())
      parameter.set_data(from[name].data());
    const NDArray x = images(3, dtype_, device_);
    const std::vector<float> wanted = values(by_hand_(x).astype(float32));
    for (int run = 0; run < 3; ++run)
      check_near(values(net(x).astype(float32)), wanted, dtype_ == float32 ? 1e-4 : 4e-2);
    const graph::Plan* const plan = net.hybrid_plan();
    REQUIRE(plan != nullptr);
    CHECK(plan->memory().bytes_derived > 0);
  }

 private:
  Device device_;
  DType dtype_;

 public:
  nn::Sequential net;

 private:
  nn::Sequential by_hand_;
};

void step_by_hand(const nn::Sequential& net, Trainer& trainer, DType dtype, Device device) {
  const NDArray labels = array(std::vector<std::int32_t>{3, 1, 4, 1}, {4}, device);
  NDArray losses;
  {
    const autograd::RecordScope record;
    losses = SoftmaxCrossEntropyLoss()(net(images(9, dtype, device)), labels);
  }
  losses.backward();
  trainer.step(4);
}

void check_changes(Device device, DType dtype) {
  CAPTURE(name_of(dtype));
  Engine engine({.seed = 5});
  const EngineScope scope(engine);
  Twins twins(device, dtype);
  nn::Sequential& net = twins.net;
  twins.check();
  const ParameterDict parameters = net.collect_params();
  for (const char* name : {"0.weight", "1.gamma", "1.running_mean", "1.running_var", "3.bias", "4.beta"}) {
    CAPTURE(name);
    const Parameter& one = parameters[name];
    one.set_data(abs(one.data().astype(float32)) + 0.75);
    twins.check();
  }
  Trainer trainer(parameters, SGD({.learning_rate = 0.05}));
  for (int step = 0; step < 3; ++step) {
    step_by_hand(net, trainer, dtype, device);
    twins.check();
  }
  const SoftmaxCrossEntropyLoss loss;
  gluon::TrainStep step(net, loss, trainer);
  const NDArray labels = array(std::vector<std::int32_t>{3, 1, 4, 1}, {4}, device);
  for (int i = 0; i < 3; ++i) {
    step(images(i, dtype, device), labels);
    twins.check();
  }
  {
    const autograd::TrainScope training;  // statistics move
    net(images(8, dtype, device));
  }
  twins.check();
  const TemporaryFolder folder;
  net.save_parameters(folder / "net.npz");
  for (const auto& [name, parameter] : parameters)
    parameter.set_data(parameter.data() * 0.5 + 0.125);
  twins.check();
  net.load_parameters(folder / "net.npz");
  twins.check();
}

}  // namespace

TEST_CASE("A hybridized network sees whatever changed its parameters", "[gluon][graph][hybrid][derived]") {
  check_changes(cpu(), float32);
  check_changes(cpu(), float16);
}
TEST_CASE(
    "A hybridized network on a GPU sees whatever changed its parameters", "[gluon][graph][hybrid][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_changes(gpu(), float32);
  check_changes(gpu(), float16);
}

TEST_CASE("Threads call a hybridized network that keeps what it made of its parameters", "[gluon][hybrid][derived]") {
  Engine engine({.seed = 5});
  const EngineScope scope(engine);
  Twins twins(cpu(), float32);
  for (int round = 0; round < 4; ++round) {
    twins.check();
    const std::vector<float> wanted = values(twins.net(images(3, float32, cpu())));
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> got(5);
    for (std::vector<float>& mine : got)
      threads.emplace_back([&] {
        const EngineScope here(engine);
        for (int run = 0; run < 5; ++run)
          mine = values(twins.net(images(3, float32, cpu())));
      });
    for (std::thread& thread : threads)
      thread.join();
    for (const std::vector<float>& one : got)
      CHECK(one == wanted);
    const Parameter& gamma = twins.net.collect_params()["1.gamma"];
    gamma.set_data(gamma.data() * 1.5);
  }
}
