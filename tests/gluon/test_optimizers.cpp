// Every optimizer by hand and as a graph, its states in files, and what guards its gradients.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "tests/gluon/optimizer_kinds.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;
namespace optimizer = gluon::optimizer;
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN(), k_inf = std::numeric_limits<double>::infinity();

/// A small network, and what trains it.
struct Training {
  nn::Sequential net;
  std::unique_ptr<Trainer> trainer;
  SoftmaxCrossEntropyLoss loss;
  Device device;
  DType dtype;
  std::unique_ptr<gluon::TrainStep> graph;

  Training(const Kind& of, Device where, DType type, bool as_graph) : device(where), dtype(type) {
    Engine::current().seed(3);
    net.add(nn::Dense(6, {.activation = "relu"}), nn::Dense(3));
    net.initialize(gluon::init::Xavier(), device);
    (void)net(pattern_array({4, 5}, 0, device));
    net.cast(dtype);
    trainer = std::make_unique<Trainer>(net.collect_params(), of.make());
    if (as_graph)
      graph = std::make_unique<gluon::TrainStep>(net, loss, *trainer);
  }
  void step(int i, double scale = 1) {
    const NDArray x = (pattern_array({4, 5}, i, device) * scale).astype(dtype);
    const NDArray y = array<std::int32_t>({0, 2, 1, i % 3}).to(device);
    trainer->set_learning_rate(0.05 / (i + 1));
    Engine::current().seed(100 + static_cast<std::uint64_t>(i));  // for SGLD's noise
    if (graph != nullptr) {
      (void)(*graph)(x, y);
      return;
    }
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = loss(net(x), y);
    }
    losses.backward();
    trainer->step(4);
  }
  std::vector<std::vector<float>> all() const {
    std::vector<std::vector<float>> found;
    for (const auto& [name, parameter] : net.collect_params())
      found.push_back(values(parameter.data()));
    for (const auto& [entry, state] : trainer->optimizer().states())
      found.push_back(values(state));
    return found;
  }
};

void check_graphs(Device device) {
  for (const Kind& of : all_kinds()) {
    for (const DType dtype : {float32, float16}) {
      CAPTURE(of.name, dtype);
      Training by_hand(of, device, dtype, false), as_graph(of, device, dtype, true);
      for (const bool guarded : {false, true}) {
        for (Training* const one : {&by_hand, &as_graph}) {
          if (guarded)
            one->trainer->guard_gradients({.max_norm = 0.1, .skip_non_finite = true});
          for (int i = 0; i < 4; ++i)
            one->step(i, guarded && i == 2 ? k_inf : 1);
        }
        CHECK((by_hand.all() == as_graph.all()));  // not printed: all weights
      }
      CHECK(as_graph.graph->traced() == 2);
      CHECK(values(as_graph.trainer->optimizer().last_guard()) == values(by_hand.trainer->optimizer().last_guard()));
      const std::vector<float> weights = as_graph.all()[0];
      for (const float value : weights)
        CHECK(std::isfinite(value));  // the step with an infinite sample was left out
    }
  }
}

}  // namespace

TEST_CASE("A step as a graph is the step by hand, with every optimizer", "[gluon][trainer][graph]") {
  check_graphs(cpu());
}
TEST_CASE("A step as a graph on a GPU is the step by hand, with every optimizer", "[gluon][trainer][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_graphs(gpu());
}

TEST_CASE("Every optimizer goes on from its states in a file as if nothing had been", "[gluon][trainer]") {
  const TemporaryFolder folder;
  for (const Kind& of : all_kinds()) {
    CAPTURE(of.name);
    CHECK(of.make()->name() == of.name);
    Training first(of, cpu(), float16, false), second(of, cpu(), float16, false);
    for (int i = 0; i < 3; ++i)
      first.step(i);
    CHECK(first.all() != second.all());
    first.trainer->save_states(folder / "states.npz");
    const auto from = first.net.collect_params();
    for (const auto& [name, parameter] : second.net.collect_params())
      parameter.set_data(from[name].data());
    second.trainer->load_states(folder / "states.npz");
    CHECK(second.trainer->optimizer().states().contains("0.weight.master"));
    CHECK((first.all() == second.all()));
    for (Training* const one : {&first, &second}) {
      one->step(3);
      one->step(4);
    }
    CHECK((first.all() == second.all()));
    for (const Kind& other : all_kinds()) {
      if (other.name != std::string(of.name))
        CHECK_THROWS_AS(other.make()->load_states(first.trainer->optimizer().states()), ValueError);
    }
  }
}

TEST_CASE("Every optimizer brings a loss down", "[gluon][trainer]") {
  for (const Kind& of : all_kinds()) {
    if (of.name == std::string("SGLD"))
      continue;  // its weights stay samples
    const Parameter weight("weight", {.shape = {8}});
    weight.set_data(pattern_array({8}));
    ParameterDict dict;
    dict.insert("weight", weight);
    Trainer trainer(dict, of.make());
    const auto loss = [&] {
      NDArray found;
      {
        const autograd::RecordScope record;
        found = sum(square(weight.data() - 0.5));
      }
      found.backward();
      return found.item<double>();
    };
    const double before = loss();
    for (int i = 0; i < 30; ++i) {
      trainer.step(1);
      (void)loss();
    }
    INFO(of.name);
    CHECK(loss() < before);
  }
}

TEST_CASE(
    "Every optimizer keeps its states in the engine of the parameters, whichever the thread's is", "[gluon][trainer]") {
  for (const Kind& of : all_kinds()) {
    CAPTURE(of.name);
    Engine theirs({.workers = 1});
    const Parameter weight("weight", {.shape = {8}});
    ParameterDict dict;
    dict.insert("weight", weight);
    {
      const EngineScope there(theirs);
      weight.set_data(pattern_array({8}));
    }
    Trainer trainer(dict, of.make());
    for (int i = 0; i < 2; ++i) {
      {
        const autograd::RecordScope record;
        sum(square(weight.data())).backward();
      }
      CHECK_NOTHROW(trainer.step(1));
    }
    theirs.wait_all();
  }
}

TEST_CASE("States of a step in a program's own trace are the optimizer's, from run to run", "[gluon][trainer][graph]") {
  for (const Kind& of : all_kinds()) {
    if (of.name == std::string("SGLD"))
      continue;  // which keeps none
    CAPTURE(of.name);
    const Parameter weight("weight", {.shape = {8}});
    weight.set_data(pattern_array({8}));
    ParameterDict dict;
    dict.insert("weight", weight);
    Trainer trainer(dict, of.make());
    graph::Tracer tracer;
    const graph::Graph step = tracer.trace([&]() -> Arrays {
      NDArray loss;
      {
        const autograd::RecordScope record;
        loss = sum(square(weight.data()));
      }
      loss.backward();
      trainer.step(1);
      return {loss.detach()};
    });
    graph::Plan plan(step);
    const auto run = [&] {
      (void)plan.run({});
      return trainer.optimizer().states();
    };
    const auto first = run(), second = run();
    int changed = 0;
    for (const auto& [name, state] : first)
      changed += values(state) == values(second.at(name)) ? 0 : 1;
    CHECK(changed > 0);
  }
}

TEST_CASE("SGLD draws samples of a normal posterior of mean 0.5 and variance 1", "[gluon][trainer]") {
  const Parameter weight("weight", {.shape = {4000}});
  weight.set_data(zeros({4000}));
  ParameterDict dict;
  dict.insert("weight", weight);
  Engine::current().seed(5);
  Trainer trainer(dict, optimizer::SGLD({.learning_rate = 0.2}));
  for (int i = 0; i < 60; ++i) {
    {
      const autograd::RecordScope record;
      (sum(square(weight.data() - 0.5)) / 2).backward();
    }
    trainer.step(1);
  }
  CHECK(mean(weight.data()).item<double>() == Approx(0.5).margin(0.06));
  CHECK(
      standard_deviation(weight.data()).item<double>() ==
      Approx(1 / std::sqrt(1 - 0.05)).margin(0.05));  // of steps of this length
}

TEST_CASE("LARS takes gammas, betas and biases as SGD does", "[gluon][trainer]") {
  const auto after = [](const char* name, Made made) {
    const Parameter one("one", {.shape = {3}});
    one.set_data(pattern_array({3}));
    ParameterDict dict;
    dict.insert(name, one);
    Trainer trainer(dict, std::move(made));
    {
      const autograd::RecordScope record;
      sum(square(one.data())).backward();
    }
    trainer.step(1);
    return values(one.data());
  };
  const auto lars = [] { return std::make_unique<optimizer::LARS>(optimizer::LARSOptions{.learning_rate = 0.1}); };
  const auto sgd = after("0.weight", std::make_unique<SGD>(optimizer::SGDOptions{.learning_rate = 0.1}));
  for (const char* name : {"0.bias", "norm.gamma", "norm.beta"})
    CHECK(after(name, lars()) == sgd);
  CHECK(after("0.weight", lars()) != sgd);
}

TEST_CASE("Options of optimizers out of range are refused by name", "[gluon][trainer]") {
  using namespace gluon::optimizer;
  for (const double bad : {k_nan, -1.0, k_inf}) {
    CHECK_THROWS_WITH(NAG({.momentum = bad}), contains("NAG: momentum is"));
    CHECK_THROWS_WITH(AdamW({.beta1 = bad}), contains("AdamW: beta1 is"));
    CHECK_THROWS_WITH(AdamW({.wd = bad}), contains("AdamW: wd is"));
    CHECK_THROWS_WITH(Adamax({.beta2 = bad}), contains("Adamax: beta2 is"));
    CHECK_THROWS_WITH(Nadam({.schedule_decay = bad}), contains("Nadam: schedule_decay is"));
    CHECK_THROWS_WITH(FTML({.epsilon = bad}), contains("FTML: epsilon is"));
    CHECK_THROWS_WITH(SGLD({.wd = bad}), contains("SGLD: wd is"));
    CHECK_THROWS_WITH(DCASGD({.momentum = bad}), contains("DCASGD: momentum is"));
    CHECK_THROWS_WITH(DCASGD({.lamda = bad}), contains("DCASGD: lamda is"));
    CHECK_THROWS_WITH(RMSProp({.rho = bad}), contains("RMSProp: rho is"));
    CHECK_THROWS_WITH(RMSProp({.epsilon = bad}), contains("RMSProp: epsilon is"));
    CHECK_THROWS_WITH(AdaGrad({.epsilon = bad}), contains("AdaGrad: epsilon is"));
    CHECK_THROWS_WITH(AdaDelta({.rho = bad}), contains("AdaDelta: rho is"));
    CHECK_THROWS_WITH(Ftrl({.lamda1 = bad}), contains("Ftrl: lamda1 is"));
    CHECK_THROWS_WITH(Ftrl({.beta = bad}), contains("Ftrl: beta is"));
    CHECK_THROWS_WITH(Signum({.wd_lh = bad}), contains("Signum: wd_lh is"));
    CHECK_THROWS_WITH(LARS({.eta = bad}), contains("LARS: eta is"));
    CHECK_THROWS_WITH(LAMB({.beta2 = bad}), contains("LAMB: beta2 is"));
    CHECK_THROWS_WITH(LAMB({.learning_rate = bad}), contains("learning_rate is"));
    CHECK_THROWS_WITH(Adafactor({.epsilon2 = bad}), contains("Adafactor: epsilon2 is"));
    CHECK_THROWS_WITH(Adafactor({.clip_threshold = bad}), contains("Adafactor: clip_threshold is"));
    CHECK_THROWS_WITH(Adafactor({.momentum = bad}), contains("Adafactor: momentum is"));
  }
  CHECK_THROWS_AS(LAMB({.lower_bound = k_nan}), ValueError);
  CHECK_THROWS_AS(LAMB({.clip_gradient = k_nan}), ValueError);
  CHECK_THROWS_AS(Adafactor({.beta2_decay = 0.1}), ValueError);
  CHECK_THROWS_AS(Adafactor({.epsilon1 = k_nan}), ValueError);
  CHECK_THROWS_AS(Signum({.momentum = 1}), ValueError);
  CHECK_NOTHROW(NAG({.momentum = 1}));
}

TEST_CASE("Gradients are scaled to a norm within the step, and steps with nan left out", "[gluon][trainer][guard]") {
  const Parameter weight("weight", {.shape = {2}});
  weight.set_data(array<float>({3, 4}));
  ParameterDict dict;
  dict.insert("weight", weight);
  Trainer trainer(dict, SGD({.learning_rate = 1, .momentum = 0.5}));
  const auto step = [&](double factor) {
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(square(weight.data())) * factor;
    }
    loss.backward();
    trainer.step(2);
    return values(weight.data());
  };
  CHECK_FALSE(trainer.optimizer().last_guard().defined());
  trainer.guard_gradients({.max_norm = 2.5, .skip_non_finite = true});
  check_near(step(1), {1.5, 2});  // (6, 8) / 2 is of norm 5, and halved
  check_near(values(trainer.optimizer().last_guard()), {5, 0.5, 1});
  CHECK(step(k_nan) == std::vector<float>{1.5, 2});
  const auto told = values(trainer.optimizer().last_guard());
  CHECK((std::isnan(told[0]) && told[1] == 1 && told[2] == 0));
  CHECK(trainer.optimizer().num_updates() == 2);  // counted
  check_near(step(0), {0.75, 1});                 // of the momentum alone, which kept its value
  trainer.guard_gradients({});
  CHECK(std::isnan(step(k_nan)[0]));
  CHECK_THROWS_AS(trainer.guard_gradients({.max_norm = k_nan}), ValueError);
}

namespace {

/// An optimizer of a program's own, from before there were guards.
class Plain : public Optimizer {
 public:
  Plain() : Optimizer(0.1) {}
  std::string name() const override { return "Plain"; }

 protected:
  void apply(const Step& step) override { sgd_update(step.weights, step.grads, {}, {.learning_rate = 0.1}); }
  std::vector<std::string> slots() const override { return {}; }
};

}  // namespace

TEST_CASE("An optimizer that reads no guard is not given one", "[gluon][trainer][guard]") {
  Plain plain;
  CHECK_THROWS_WITH(plain.guard({.max_norm = 1}), contains("Plain: takes no guard"));
  CHECK_NOTHROW(plain.guard({}));
}

TEST_CASE("clip_global_norm scales all arrays together", "[gluon][guard]") {
  const std::vector<NDArray> arrays = {
      array<float>({3, 0}), array<float>({0, 4}).astype(float16), zeros({0}), array<double>({12})};
  const NDArray gaps = zeros({2, 2});
  std::vector<NDArray> all = arrays;
  all.push_back(gaps.T());
  CHECK(gluon::utils::clip_global_norm(all, 20).item<double>() == 13);
  check_near(values(all[0]), {3, 0});
  CHECK(gluon::utils::clip_global_norm(all, 6.5).item<double>() == 13);
  check_near(values(all[0]), {1.5, 0});
  check_near(values(all[1]), {0, 2});
  check_near(values(all[3]), {6});
  for (const DType dtype : {float16, bfloat16}) {  // the factor, 1e-8, is none of float16
    const NDArray half = full({100, 100}, 100, {.dtype = dtype});
    CHECK(gluon::utils::clip_global_norm(std::vector<NDArray>{half}, 1e-4).item<double>() == 1e4);
    CHECK(half.dtype() == dtype);
    CHECK(max(half).item<double>() == Approx(1e-6).epsilon(0.05));
  }
  fill(gaps, k_nan);
  CHECK(std::isnan(gluon::utils::clip_global_norm(all, 1).item<double>()));
  check_near(values(all[0]), {1.5, 0});  // a norm that is none scales nothing
  CHECK(gluon::utils::clip_global_norm({}, 1).item<double>() == 0);
  for (const double bad : {k_nan, -1.0})
    CHECK_THROWS_AS(gluon::utils::clip_global_norm(all, bad), ValueError);
  CHECK_THROWS_AS(gluon::utils::clip_global_norm(std::vector<NDArray>{zeros({1}, {.dtype = int32})}, 1), DTypeError);
}
