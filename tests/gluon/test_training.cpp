#include <cmath>

#include "tests/gluon/networks.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

TEST_CASE("a loss falls on a toy problem", "[gluon][training]") {
  for (const char* network : {"mlp", "tf", "torch"}) {
    INFO(network);
    const std::vector<float> losses = training_losses(network, cpu(), 40, 32, 14);
    CHECK(losses.front() > 1.5f);
    CHECK(losses.back() < losses.front() / 2);
  }
}

TEST_CASE("the same seed trains the same weights, bit by bit", "[gluon][training]") {
  CHECK(training_losses("torch", cpu(), 5, 16, 12) == training_losses("torch", cpu(), 5, 16, 12));
}

TEST_CASE("a straight line is found", "[gluon][training]") {
  nn::Dense net(1, {.in_units = 2});
  net.initialize(gluon::init::Zero());
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.3, .momentum = 0.5}));
  gluon::loss::L2Loss loss;
  const NDArray x = pattern_array({50, 2});
  const NDArray y = x.slice(1, 0, 1) * 2 - x.slice(1, 1, 2) * 3 + 0.5;
  for (int step = 0; step < 200; ++step) {
    NDArray l;
    {
      autograd::RecordScope record;
      l = loss(net(x), y);
    }
    l.backward();
    trainer.step(50);
  }
  check_near(values(net.own_parameter("weight").data()), {2, -3}, 1e-3);
  check_near(values(net.own_parameter("bias").data()), {0.5}, 1e-3);
}

namespace {

void train_step(gluon::Block& net, gluon::Trainer& trainer, std::int64_t batch, Device device) {
  const auto [x, y] = synthetic_batch(batch, 28, 1, device);
  NDArray losses;
  {
    autograd::RecordScope record;
    losses = gluon::loss::SoftmaxCrossEntropyLoss()(net(x), y);
  }
  losses.backward();
  trainer.step(batch);
}

std::vector<float> all_weights(const gluon::Block& net) {
  std::vector<float> all;
  for (const auto& [name, parameter] : net.collect_params()) {
    const std::vector<float> one = values(parameter.data());
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// Decision 5: a step that does not fit is caught and forgiven, and a smaller one goes on from the last good weights.
void survive_out_of_memory(Device device) {
  Engine engine({.seed = 3});
  EngineScope scope(engine);
  nn::Sequential net = sample_network("tf");
  net.initialize(gluon::init::Xavier(), device);
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
  train_step(net, trainer, 64, device);
  const std::vector<float> good = all_weights(net);
  engine.wait_all();

  Pool& pool = Storage::of(engine).pool(device);
  pool.trim();
  pool.set_limit(pool.stats().reserved + (std::size_t{96} << 20));
  bool failed = false;
  try {
    train_step(net, trainer, 4096, device);  // its first activation alone takes 338 MiB
    engine.wait_all();
  } catch (const OutOfMemory& error) {
    failed = true;
    CHECK(error.requested() > 0);
    engine.forgive(error);
  }
  CHECK(failed);
  CHECK(all_weights(net) == good);
  for (int step = 0; step < 3; ++step)
    train_step(net, trainer, 64, device);
  const std::vector<float> after = all_weights(net);
  CHECK(after != good);
  CHECK(std::all_of(after.begin(), after.end(), [](float w) { return std::isfinite(w); }));
}

}  // namespace

TEST_CASE("training goes on after a batch that did not fit into memory", "[gluon][training]") {
  survive_out_of_memory(cpu());
}

TEST_CASE("training goes on after a batch that did not fit into a GPU's memory", "[gluon][training][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  survive_out_of_memory(gpu(0));
}
