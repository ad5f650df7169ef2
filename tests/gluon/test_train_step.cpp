// Training steps as one graph: everything is as after the same steps by hand, to the last bit.
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
using gluon::optimizer::Adam;
using gluon::optimizer::SGD;

namespace {

namespace nn = gluon::nn;

nn::Sequential network(const std::string& name) {
  if (name != "norm")
    return sample_network(name);
  nn::Sequential net;
  net.add(nn::Conv2D(8, 3), nn::BatchNorm(), nn::Activation("relu"), nn::MaxPool2D(2), nn::Dropout(0.3), nn::Dense(10));
  return net;
}

/// All that a run of steps leaves: losses and predictions of each, parameters and gradients at the end.
using Trail = std::vector<std::vector<float>>;

struct Program {
  std::string name;
  Device device;
  bool adam = true;
  std::vector<std::int64_t> batches = {16, 16, 16, 9, 16, 9};
};

/// `step(net, loss, trainer)` gives what makes one step of (x, y).
template <class MakeStep>
Trail run_steps(const Program& program, const MakeStep& make_step) {
  Engine engine({.workers = 2, .seed = 11});
  const EngineScope scope(engine);
  nn::Sequential net = network(program.name);
  net.initialize(gluon::init::Xavier(), program.device);
  std::unique_ptr<gluon::optimizer::Optimizer> optimizer;
  if (program.adam)
    optimizer = std::make_unique<Adam>();
  else
    optimizer = std::make_unique<SGD>(gluon::optimizer::SGDOptions{.momentum = 0.9, .weight_decay = 1e-3});
  Trainer trainer(net.collect_params(), std::move(optimizer));
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  auto step = make_step(net, loss, trainer);
  Trail trail;
  for (std::size_t i = 0; i < program.batches.size(); ++i) {
    trainer.set_learning_rate(0.01 / static_cast<double>(i + 1));
    const auto [x, y] = synthetic_batch(program.batches[i], 12, static_cast<int>(i), program.device);
    const StepResult result = step(x, y);
    trail.push_back(values(result.losses));
    trail.push_back(values(result.predictions));
  }
  for (const auto& [name, parameter] : net.collect_params()) {
    trail.push_back(values(parameter.data()));
    if (parameter.grad_req() != GradReq::null)
      trail.push_back(values(parameter.grad()));
  }
  return trail;
}

Trail by_hand(const Program& program) {
  return run_steps(program, [](const nn::Sequential& net, const auto& loss, Trainer& trainer) {
    return [&](const NDArray& x, const NDArray& y) {
      StepResult result;
      {
        const autograd::RecordScope record;
        result.predictions = net(x);
        result.losses = loss(result.predictions, y);
      }
      result.losses.backward();
      trainer.step(x.shape()[0]);
      return result;
    };
  });
}

/// A TrainStep, which tells how often it traced when it goes.
class CountedStep {
 public:
  CountedStep(const nn::Sequential& net, const gluon::loss::Loss& loss, Trainer& trainer, std::size_t& traced)
      : step_(std::make_unique<TrainStep>(net, loss, trainer)), traced_(traced) {}
  StepResult operator()(const NDArray& x, const NDArray& y) {
    const StepResult result = (*step_)(x, y);
    traced_ = step_->traced();
    return result;
  }

 private:
  std::unique_ptr<TrainStep> step_;
  std::size_t& traced_;
};

Trail as_graph(const Program& program, std::size_t& traced) {
  return run_steps(program, [&](const nn::Sequential& net, const auto& loss, Trainer& trainer) {
    return CountedStep(net, loss, trainer, traced);
  });
}

void check_same(const Program& program) {
  CAPTURE(program.name, program.adam);
  std::size_t traced = 0;
  CHECK(as_graph(program, traced) == by_hand(program));
  CHECK(traced == 2);  // of 16 samples, and of 9
}

}  // namespace

TEST_CASE("A step as a graph leaves what the same step by hand leaves, to the last bit", "[gluon][graph]") {
  for (const char* name : {"mlp", "torch", "tf", "norm"}) {
    for (const bool adam : {false, true})
      check_same({.name = name, .device = cpu(), .adam = adam});
  }
}

TEST_CASE("A step as a graph on a GPU leaves what the same step by hand leaves", "[gluon][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const char* name : {"mlp", "torch", "tf", "norm"}) {
    for (const bool adam : {false, true})
      check_same({.name = name, .device = gpu(0), .adam = adam});
  }
}
