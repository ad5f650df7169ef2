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
  nn::Sequential net;
  if (name == "small") {
    net.add(
        nn::Conv2D(4, 3, {.activation = "relu"}), nn::BatchNorm(), nn::MaxPool2D(2), nn::Dropout(0.2), nn::Dense(10));
    return net;
  }
  if (name == "torch norm") {  // as the sample network, of fewer windows and with statistics
    net.add(nn::Conv2D(4, 3), nn::BatchNorm(), nn::Activation("relu"), nn::Conv2D(8, 3), nn::BatchNorm());
    net.add(nn::Activation("relu"), nn::MaxPool2D(2), nn::Dropout(0.25), nn::Dense(16), nn::BatchNorm());
    net.add(nn::Activation("relu"), nn::Dropout(0.5), nn::Dense(10));
    return net;
  }
  if (name == "tf norm") {
    net.add(nn::Conv2D(4, 3), nn::BatchNorm(), nn::Activation("relu"), nn::MaxPool2D(2));
    net.add(nn::Dense(8, {.activation = "relu"}), nn::Dense(10));
    return net;
  }
  if (name != "norm")
    return sample_network(name);
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
    optimizer = std::make_unique<SGD>(gluon::optimizer::SGDOptions{.momentum = 0.9, .wd = 1e-3});
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
  CHECK((as_graph(program, traced) == by_hand(program)));  // not printed: thousands of weights
  CHECK(traced == 1);                                      // of 16 samples; that of 9 is made of it
}

}  // namespace

TEST_CASE("A step as a graph leaves what the same step by hand leaves, to the last bit", "[gluon][graph]") {
  for (const char* name : {"mlp", "torch", "tf", "norm"}) {
    for (const bool adam : {false, true})
      check_same({.name = name, .device = cpu(), .adam = adam});
  }
}

namespace {

std::vector<std::int64_t> hundred_batches(std::int64_t size) {
  std::vector<std::int64_t> batches(100, size);
  for (std::size_t i = 9; i < batches.size(); i += 10)
    batches[i] = size - 3;
  return batches;
}

}  // namespace

TEST_CASE("After a hundred steps a step as a graph has left what steps by hand leave", "[gluon][graph]") {
  for (const char* name : {"mlp", "small", "torch norm", "tf norm"}) {
    for (const bool adam : {false, true})
      check_same({.name = name, .device = cpu(), .adam = adam, .batches = hundred_batches(12)});
  }
}

TEST_CASE("After a hundred steps a step as a graph on a GPU has left what steps by hand leave", "[gluon][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_same({.name = "torch norm", .device = gpu(0), .adam = true, .batches = hundred_batches(5)});
  check_same({.name = "tf norm", .device = gpu(0), .adam = false, .batches = hundred_batches(5)});
}

TEST_CASE("A step as a graph on a GPU leaves what the same step by hand leaves", "[gluon][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  bool adam = false;  // by turns: what networks and optimizers have to do with each other is seen on the CPU
  for (const char* name : {"mlp", "torch", "tf", "norm"}) {
    check_same({.name = name, .device = gpu(0), .adam = adam, .batches = {16, 16, 16, 9, 9}});
    adam = !adam;
  }
}

namespace {

/// Two trainings of one small network, one by hand and one as a graph; what is done between steps is done to both.
struct Pair {
  nn::Sequential nets[2];
  std::unique_ptr<Trainer> trainers[2];
  std::unique_ptr<TrainStep> graph;
  gluon::loss::SoftmaxCrossEntropyLoss loss;

  explicit Pair(const gluon::optimizer::SGDOptions& options) {
    for (int i = 0; i < 2; ++i) {
      Engine::current().seed(3);
      nets[i].add(nn::Dense(6, {.activation = "relu"}), nn::Dense(3));
      nets[i].initialize(gluon::init::Xavier());
      (void)nets[i](samples());
      trainers[i] = std::make_unique<Trainer>(nets[i].collect_params(), SGD(options));
    }
    graph = std::make_unique<TrainStep>(nets[1], loss, *trainers[1]);
  }
  static NDArray samples() { return pattern_array({4, 5}); }
  static NDArray labels(std::int32_t last = 1) { return array<std::int32_t>({0, 2, 1, last}); }

  std::vector<float> step_by_hand(const NDArray& y) {
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = loss(nets[0](samples()), y);
    }
    losses.backward();
    trainers[0]->step(4);
    return values(losses);
  }
  void step() {
    const std::vector<float> wanted = step_by_hand(labels());
    CHECK(values((*graph)(samples(), labels()).losses) == wanted);
  }
  void check() {
    for (const auto& [name, parameter] : nets[0].collect_params())
      CHECK(values(nets[1].collect_params()[name].data()) == values(parameter.data()));
  }
};

constexpr gluon::optimizer::SGDOptions k_decaying = {.learning_rate = 0.1, .momentum = 0.9, .wd = 0.05};

}  // namespace

TEST_CASE("What changes between steps changes steps as graphs too", "[gluon][graph]") {
  const TemporaryFolder folder;
  Pair pair(k_decaying);
  pair.step();
  pair.step();
  for (const auto& net : pair.nets)
    net.collect_params()["0.weight"].set_wd_mult(0);
  pair.step();
  for (const auto& net : pair.nets)
    net.collect_params()["1.weight"].set_lr_mult(0.5);
  pair.step();
  for (const auto& trainer : pair.trainers)
    trainer->save_states(folder / "states.npz");
  pair.step();
  pair.step();
  for (const auto& trainer : pair.trainers)
    trainer->load_states(folder / "states.npz");
  pair.step();
  pair.step();
  for (const auto& net : pair.nets)
    net.collect_params()["0.bias"].set_grad_req(GradReq::null);
  pair.step();
  pair.step();
  pair.check();
}

TEST_CASE("A child that was replaced is another step as a graph, with parameters or without", "[gluon][graph]") {
  Pair pair({.learning_rate = 0.1});
  for (auto& net : pair.nets)
    net.add(nn::Activation("relu"));
  pair.step();
  pair.step();
  for (auto& net : pair.nets)
    (void)net.replace("2", nn::Activation("tanh"));
  pair.step();
  pair.step();
  for (int i = 0; i < 2; ++i) {
    Engine::current().seed(8);
    nn::Dense fresh(3);
    fresh.initialize(gluon::init::Xavier());
    (void)fresh(zeros({1, 6}));
    for (const auto& [name, parameter] : pair.nets[i].collect_params())
      parameter.set_grad_req(name[0] == '1' ? GradReq::null : GradReq::write);
    (void)pair.nets[i].replace("1", std::move(fresh));
  }
  pair.step();  // trains what the trainer has: the first layer
  pair.step();
  pair.check();
}

TEST_CASE("A step as a graph gives no predictions where nobody wants them", "[gluon][graph]") {
  for (const bool wanted : {true, false}) {
    nn::Dense net(3, {.in_units = 4});
    net.initialize();
    Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.1}));
    const gluon::loss::SoftmaxCrossEntropyLoss loss;
    TrainStep step(net, loss, trainer, {.predictions = wanted});
    const NDArray x = ones({2, 4}), y = zeros({2}, {.dtype = int32});
    for (int i = 0; i < 2; ++i) {
      const StepResult result = step(x, y);
      CHECK(result.losses.shape() == Shape{2});
      CHECK(result.predictions.defined() == wanted);
    }
    CHECK(step.plan()->graph().outputs.size() == (wanted ? 2 : 1));
  }
}

TEST_CASE("States from before the first step take a step as a graph back to zeros", "[gluon][graph]") {
  const TemporaryFolder folder;
  Pair pair(k_decaying);
  for (const auto& trainer : pair.trainers)
    trainer->save_states(folder / "none.npz");
  pair.step();
  pair.step();
  for (const auto& trainer : pair.trainers)
    trainer->load_states(folder / "none.npz");
  pair.step();
  pair.step();
  pair.step();
  pair.check();
}

TEST_CASE("A step as a graph that throws was not counted, and the next ones go on", "[gluon][graph]") {
  Pair pair(k_decaying);
  pair.step();
  const auto before = pair.trainers[1]->optimizer().num_updates();
  CHECK_THROWS_AS((*pair.graph)(zeros({4, 7}), Pair::labels()), ShapeError);
  CHECK(pair.trainers[1]->optimizer().num_updates() == before);
  NDArray variable = Pair::samples();
  variable.attach_grad();
  CHECK_THROWS_AS((*pair.graph)(variable, Pair::labels()), UnsupportedError);
  pair.step();
  pair.check();
}

TEST_CASE("After a bad label a step as a graph goes on as by hand, once the error is forgiven", "[gluon][graph]") {
  Pair pair({.learning_rate = 0.1});
  pair.step();

  for (int i = 0; i < 2; ++i) {
    try {
      if (i == 0)
        (void)pair.step_by_hand(Pair::labels(77));
      else
        (void)values((*pair.graph)(Pair::samples(), Pair::labels(77)).losses);
      FAIL("a label of 77 is none");
    } catch (const IndexError& error) {
      Engine::current().forgive(error);
    }
    if (i == 0) {  // its step was cut off by the error, as the other's was
      NDArray again;
      {
        const autograd::RecordScope record;
        again = pair.loss(pair.nets[0](Pair::samples()), Pair::labels());
      }
      CHECK(values(again).size() == 4);
    }
  }
  pair.step();
  pair.step();
  pair.check();
}

TEST_CASE("A parameter that backward does not reach is an error of a step as a graph", "[gluon][graph]") {
  Pair pair({.learning_rate = 0.1});
  nn::Dense other(2);
  other.initialize(gluon::init::Xavier());
  (void)other(zeros({1, 2}));
  gluon::ParameterDict both = pair.nets[1].collect_params();
  both.insert("other.weight", other.own_parameter("weight"));
  Trainer trainer(both, SGD());
  TrainStep step(pair.nets[1], pair.loss, trainer);
  CHECK_THROWS_AS(step(Pair::samples(), Pair::labels()), ValueError);
  CHECK(trainer.optimizer().num_updates() == 0);
  both["other.weight"].set_grad_req(GradReq::null);
  (void)step(Pair::samples(), Pair::labels());
  both["other.weight"].set_grad_req(GradReq::write);  // after a plan was made
  CHECK_THROWS_AS(step(Pair::samples(), Pair::labels()), ValueError);
  CHECK(trainer.optimizer().num_updates() == 1);
}

TEST_CASE("A gradient that a step as a graph used is used: a step by hand asks for another", "[gluon][graph]") {
  Pair pair({.learning_rate = 0.1});
  pair.step();
  pair.step();
  CHECK_THROWS_AS(pair.trainers[1]->step(4), ValueError);
}
