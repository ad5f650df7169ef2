// What a graph that runs again on a CPU takes from the heap: nothing, once it is under way.
#include <string>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"
#include "tests/support/scarce.h"

using namespace sluice;
using namespace sluice::test;

#if !defined(__SANITIZE_ADDRESS__)  // under which every array comes from the heap
namespace {

constexpr int k_warm = 300, k_counted = 100;

/// Calls of the heap that so many rounds make.
template <class Round>
long allocations_of(const Round& round) {
  for (int i = 0; i < k_warm; ++i)
    round();
  const long before = allocations_here();
  for (int i = 0; i < k_counted; ++i)
    round();
  return allocations_here() - before;
}

gluon::nn::Sequential small_network(const std::string& name) {
  namespace nn = gluon::nn;
  nn::Sequential net;
  if (name == "mlp") {
    net.add(nn::Dense(16, {.activation = "relu"}), nn::Dense(16, {.activation = "tanh"}), nn::Dense(10));
  } else {
    net.add(
        nn::Conv2D(4, 3, {.activation = "relu"}), nn::MaxPool2D(2), nn::BatchNorm(), nn::Dropout(0.3), nn::Dense(10));
  }
  return net;
}

}  // namespace

namespace {

/// Of operators with kernels of ours alone: what libraries take for a call is not counted among a plan's.
class OwnKernels : public gluon::Block {
 protected:
  NDArray forward(const NDArray& x) const override {
    const NDArray y = dropout(softmax(relu(x * 2.0 + 1.0)), 0.3);
    return y - mean(y, {1}, true) + tanh(x).T().copy().T();
  }
};

}  // namespace

TEST_CASE("A hybridized block on a CPU takes nothing from the heap once it is under way", "[gluon][graph]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  for (const bool train : {false, true}) {  // with random numbers
    CAPTURE(train);
    const autograd::ModeScope mode(false, train);
    OwnKernels net;
    net.hybridize();
    const NDArray x = pattern_array({40, 50});
    NDArray y;
    CHECK(allocations_of([&] { y = net(x); }) == 0);
    CHECK(net.hybrid_traces() == 1);
  }
}

TEST_CASE("A hybridized network on a CPU takes from the heap what its kernels take by hand", "[gluon][graph]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  for (const char* name : {"mlp", "cnn"}) {
    CAPTURE(name);
    gluon::nn::Sequential net = small_network(name);
    net.initialize(gluon::init::Xavier());
    const NDArray x = synthetic_batch(4, 12, 1, cpu()).first;
    NDArray y;
    const long by_hand = allocations_of([&] { y = net(x); });
    net.hybridize();
    // A convolution with its pooling is one call, whose pieces bring some more.
    CHECK(allocations_of([&] { y = net(x); }) <= by_hand + (std::string(name) == "cnn" ? 5 * k_counted : 0));
    CHECK(net.hybrid_traces() == 1);
  }
}

TEST_CASE("A training step as a graph on a CPU takes less from the heap than one by hand", "[gluon][graph]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  for (const char* name : {"mlp", "cnn"}) {
    for (const bool adam : {false, true}) {
      CAPTURE(name, adam);
      gluon::nn::Sequential net = small_network(name);
      net.initialize(gluon::init::Xavier());
      const auto [x, y] = synthetic_batch(4, 12, 1, cpu());
      (void)net(x);
      std::unique_ptr<Optimizer> optimizer;
      if (adam)
        optimizer = std::make_unique<Adam>();
      else
        optimizer = std::make_unique<SGD>(gluon::optimizer::SGDOptions{.momentum = 0.9});
      Trainer trainer(net.collect_params(), std::move(optimizer));
      const SoftmaxCrossEntropyLoss loss;
      NDArray losses;
      const long by_hand = allocations_of([&, &x = x, &y = y] {
        {
          const autograd::RecordScope record;
          losses = loss(net(x), y);
        }
        losses.backward();
        losses = losses.detach();
        trainer.step(4);
      });
      gluon::TrainStep step(net, loss, trainer);
      const long as_graph = allocations_of([&, &x = x, &y = y] { losses = step(x, y).losses; });
      INFO("by hand " << by_hand << ", as a graph " << as_graph);
      CHECK(as_graph < by_hand);
      CHECK(as_graph <= 190 * k_counted);  // of the mlp's 181 oneDNN's calls take 161
      CHECK(step.traced() == 1);
    }
  }
}
#endif
