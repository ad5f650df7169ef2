// Training steps under a sink: whatever pushes a task is a call that the sink was given.
#include <memory>
#include <string>
#include <vector>

#include <sluice/gluon/sluice.h>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"
#include "tests/support/sinks.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using gluon::optimizer::Adam;
using gluon::optimizer::Optimizer;
using gluon::optimizer::SGD;

// Tasks that a training step pushed beside the calls that the sink was given; with these, what the sink saw.
struct StepSeen {
  std::uint64_t beside = 0, states = 0;
  std::set<std::string> names = {};
  std::vector<std::string> wrong = {};
  std::vector<float> weights = {};  // afterwards
};

StepSeen step_under_sink(
    const std::string& network, std::unique_ptr<Optimizer> optimizer, GradReq req, bool with_sink = true) {
  Engine engine({.workers = 1, .seed = 3});
  const EngineScope scope(engine);
  const auto [x, y] = synthetic_batch(8, 28, 1, cpu());
  engine.wait_all();
  StepSeen seen;
  RunningSink sink;
  {
    const CallSinkScope taken(with_sink ? &sink : nullptr);
    const auto before = engine.counters().pushed;
    gluon::nn::Sequential net = sample_network(network);
    net.initialize(gluon::init::Xavier());
    {
      const autograd::TrainScope train;
      net(x);
    }
    for (const auto& [name, parameter] : net.collect_params())
      parameter.set_grad_req(req);
    gluon::Trainer trainer(net.collect_params(), std::move(optimizer));
    gluon::loss::SoftmaxCrossEntropyLoss loss;
    for (int step = 0; step < 3; ++step) {
      if (step == 1)
        trainer.set_learning_rate(trainer.learning_rate() / 2);
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = loss(net(x), y);
      }
      losses.backward();
      trainer.step(8);
      if (req == GradReq::add) {
        for (const auto& [name, parameter] : net.collect_params())
          parameter.zero_grad();
      }
    }
    engine.wait_all();
    seen.beside = engine.counters().pushed - before - sink.pushed;
    for (const auto& [name, state] : trainer.optimizer().states())
      seen.states += is_floating(state.dtype()) ? 1 : 0;
    for (const auto& [name, parameter] : net.collect_params()) {
      const auto values = parameter.data().to_vector<float>();
      seen.weights.insert(seen.weights.end(), values.begin(), values.end());
    }
  }
  seen.names = sink.names;
  seen.wrong = sink.wrong;
  return seen;
}

}  // namespace

TEST_CASE("A sink sees every write of a training step, with every optimizer", "[sink]") {
  const auto check = [](const std::string& network, const char* update, auto make) {
    for (const GradReq req : {GradReq::write, GradReq::add}) {
      CAPTURE(network, update);
      const StepSeen seen = step_under_sink(network, make(), req);
      // Learning rates, written where the first step's were, are no part of a step that a sink may run again: those of
      // the second step, and of the third, which has others only where they depend on the step. Nor are the first
      // zeros of states.
      CHECK(seen.beside == seen.states + (update == std::string("adam_update") ? 2 : 1));
      CHECK(seen.wrong == std::vector<std::string>());
      CHECK(seen.names.count(update) == 1);
      CHECK(seen.names.count("random_uniform") == 1);  // of the initialiser
      CHECK((seen.weights == step_under_sink(network, make(), req, false).weights));
    }
  };
  for (const char* network : {"mlp", "torch"}) {
    check(network, "sgd_update", [] { return std::make_unique<SGD>(); });
    check(network, "sgd_update", [] { return std::make_unique<SGD>(gluon::optimizer::SGDOptions{.momentum = 0.9}); });
    check(network, "adam_update", [] { return std::make_unique<Adam>(); });
  }
}

TEST_CASE("A step that a sink takes does not write over one that was prepared", "[sink]") {
  const auto trained = [](bool steps_between) {
    gluon::nn::Dense net(2, {.in_units = 3});
    net.initialize(gluon::init::One());
    gluon::Trainer trainer(net.collect_params(), SGD());
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(net(ones({4, 3})));
    }
    loss.backward();
    trainer.prepare_step(4);
    if (steps_between) {
      RunningSink sink;
      const CallSinkScope taken(&sink);
      CHECK_THROWS_WITH(trainer.step(2), contains("of these 2 parameters") && contains("have the sink take"));
    }
    CHECK(trainer.optimizer().num_updates() == 1);
    trainer.apply_step();
    return net.collect_params()["weight"].data().to_vector<float>();
  };
  CHECK(trained(true) == trained(false));
}
