// Training within a budget of memory: the same bits as by hand, in less.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using gluon::StepResult;
using gluon::Trainer;
using gluon::TrainStep;

namespace {

namespace nn = gluon::nn;

/// Two convolutions with batch norm, and what goes in added to what comes out.
class Residual : public gluon::Block {
 public:
  explicit Residual(std::int64_t channels) {
    for (int i = 0; i < 2; ++i) {
      convolutions_.push_back(child(message("convolution", i), nn::Conv2D(channels, 3, {.padding = 1})));
      norms_.push_back(child(message("norm", i), nn::BatchNorm()));
    }
  }

 protected:
  NDArray forward(const NDArray& x) const override {
    const NDArray inner = relu(norms_[0](convolutions_[0](x)));
    return relu(norms_[1](convolutions_[1](inner)) + x);
  }

 private:
  std::vector<gluon::Child<nn::Conv2D>> convolutions_;
  std::vector<gluon::Child<nn::BatchNorm>> norms_;
};

nn::Sequential network(const std::string& name) {
  if (name != "residual")
    return sample_network(name);
  nn::Sequential net;
  net.add(nn::Conv2D(6, 3), nn::BatchNorm(), nn::Activation("relu"), Residual(6), nn::Dropout(0.3), Residual(6));
  net.add(nn::MaxPool2D(2), nn::Dense(20, {.activation = "relu"}), nn::Dropout(0.3), nn::Dense(10));
  return net;
}

/// How a network is trained, and what it took.
struct Training {
  std::string name;
  Device device;
  bool adam = true;
  enum class How { by_hand, step, hybrid } how = How::by_hand;
  std::size_t budget = 0;
  int steps = 20;
  graph::PlanMemory memory = {};
  std::size_t outputs = 0;  // of the network's own plan
};

// Losses and predictions of each step, and all parameters and gradients at the end.
std::vector<std::vector<float>> trained(Training& how) {
  Engine engine({.workers = 2, .seed = 11});
  const EngineScope scope(engine);
  nn::Sequential net = network(how.name);
  net.initialize(gluon::init::Xavier(), how.device);
  std::unique_ptr<gluon::optimizer::Optimizer> optimizer;
  if (how.adam)
    optimizer = std::make_unique<gluon::optimizer::Adam>();
  else
    optimizer = std::make_unique<gluon::optimizer::SGD>(
        gluon::optimizer::SGDOptions{.learning_rate = 0.05, .momentum = 0.9, .wd = 1e-3});
  Trainer trainer(net.collect_params(), std::move(optimizer));
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  const graph::PlanOptions plan{.memory_budget = how.budget};
  if (how.how == Training::How::hybrid)
    net.hybridize(true, {.plan = plan});
  TrainStep step(net, loss, trainer, {.plan = plan});
  std::vector<std::vector<float>> trail;
  for (int i = 0; i < how.steps; ++i) {
    const auto [x, y] = synthetic_batch(i % 5 == 4 ? 3 : 8, 12, i, how.device);
    StepResult result;
    if (how.how == Training::How::step) {
      result = step(x, y);
    } else {
      const autograd::RecordScope record;
      result.predictions = net(x);
      result.losses = loss(result.predictions, y);
    }
    if (how.how != Training::How::step) {
      result.losses.backward();
      trainer.step(x.shape()[0]);
    }
    trail.push_back(values(result.losses));
    trail.push_back(values(result.predictions));
  }
  for (const auto& [name, parameter] : net.collect_params()) {
    trail.push_back(values(parameter.data()));
    if (parameter.grad_req() != GradReq::null)
      trail.push_back(values(parameter.grad()));
  }
  const graph::Plan* const used = how.how == Training::How::hybrid ? net.hybrid_plan() : step.plan();
  if (used != nullptr) {
    how.memory = used->memory();
    how.outputs = used->graph().outputs.size();
  }
  return trail;
}

// So that something is kept for long.
bool is_deep(const std::string& name) {
  return name == "torch" || name == "residual";
}

void check_steps(const char* name, Device device, bool adam, int steps) {
  CAPTURE(name, adam);
  Training by_hand{.name = name, .device = device, .adam = adam, .steps = steps};
  const auto wanted = trained(by_hand);
  Training plain{.name = name, .device = device, .adam = adam, .how = Training::How::step, .steps = steps};
  CHECK((trained(plain) == wanted));
  for (const std::size_t budget : {plain.memory.bytes * 3 / 4, plain.memory.bytes / 2, std::size_t{1}}) {
    CAPTURE(budget);
    Training less = plain;
    less.budget = budget;
    CHECK((trained(less) == wanted));
    CHECK(less.memory.bytes_without_budget == plain.memory.bytes);
    CHECK(less.memory.bytes <= plain.memory.bytes);
    if (is_deep(name))
      CHECK(less.memory.bytes <= std::max(budget, plain.memory.bytes * 9 / 10));
  }
}

void check_hybrid(const char* name, Device device, int steps) {
  CAPTURE(name);
  Training by_hand{.name = name, .device = device, .steps = steps};
  const auto wanted = trained(by_hand);
  Training plain{.name = name, .device = device, .how = Training::How::hybrid, .steps = steps};
  CHECK((trained(plain) == wanted));
  Training less = plain;
  less.budget = 1;
  CHECK((trained(less) == wanted));
  CHECK(less.outputs < plain.outputs);
  CHECK(less.memory.bytes <= plain.memory.bytes);
  CHECK((!is_deep(name) || less.memory.bytes < plain.memory.bytes));
  less.budget = ~std::size_t{0};
  CHECK((trained(less) == wanted));
  CHECK(less.memory.bytes == plain.memory.bytes);
}

constexpr const char* k_networks[] = {"mlp", "torch", "tf", "residual"};

}  // namespace

TEST_CASE("Steps within a budget leave what steps by hand leave, to the last bit", "[gluon][graph][recomputation]") {
  for (const char* name : k_networks) {
    for (const bool adam : {false, true})
      check_steps(name, cpu(), adam, 20);
  }
}

TEST_CASE("Steps within a budget on a GPU leave what steps by hand leave", "[gluon][graph][recomputation][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const char* name : k_networks)
    check_steps(name, gpu(0), true, 6);
}

TEST_CASE("Recorded calls of a hybridized network keep less for gradients", "[gluon][graph][hybrid][recomputation]") {
  for (const char* name : {"torch", "tf", "residual"})
    check_hybrid(name, cpu(), 10);
}

TEST_CASE("Recorded calls on a GPU keep less for gradients", "[gluon][graph][hybrid][recomputation][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_hybrid("residual", gpu(0), 6);
}
