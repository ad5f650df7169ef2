// Steps that are recorded once and run again: rates and the step's number are read when they run.
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/region.h>
#include <sluice/operator/sink.h>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Runs the calls that it is given, keeps them, and runs them again.
class Replay : public CallSink {
 public:
  Arrays take(const OperatorCall& call) override {
    kept_.push_back({&call.op, {call.inputs.begin(), call.inputs.end()}, call.attributes});
    return invoke(call.op, call.inputs, call.attributes, call.site, call.destinations);
  }
  void again() const {
    for (const Kept& call : kept_)
      invoke(*call.op, call.inputs, call.attributes, SourceLocation::current());
  }
  std::size_t calls() const { return kept_.size(); }

 private:
  struct Kept {
    const Operator* op;
    std::vector<NDArray> inputs;
    Attributes attributes;
  };
  std::vector<Kept> kept_;
};

ParameterDict two_parameters(Device device) {
  ParameterDict dict;
  for (const char* name : {"0.weight", "1.weight"}) {
    const Parameter parameter("weight", {.shape = {3}});
    parameter.set_data(pattern_array({3}).to(device));
    dict.insert(name, parameter);
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(square(parameter.data()));
    }
    loss.backward();
  }
  dict["1.weight"].set_lr_mult(2);
  return dict;
}

std::vector<std::vector<float>> values_of(const ParameterDict& dict) {
  std::vector<std::vector<float>> all;
  for (const auto& [name, parameter] : dict)
    all.push_back(values(parameter.data()));
  return all;
}

constexpr double k_rates[] = {0.1, 0.02, 0.5, 0.1};
constexpr std::int64_t k_batches[] = {4, 4, 2, 8};

// Weights after steps with other rates and batch sizes, each pushed anew; gradients stay as they are.
template <class Make>
std::vector<std::vector<float>> pushed_anew(Device device, const Make& make) {
  const ParameterDict dict = two_parameters(device);
  auto own = make();
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
  for (int i = 0; i < 4; ++i) {
    own.set_learning_rate(k_rates[i]);
    own.update(entries, 1.0 / static_cast<double>(k_batches[i]));
  }
  return values_of(dict);
}

// The same of one recorded step; `run(first, apply)` records it or runs it again.
template <class Make, class Run>
std::vector<std::vector<float>> recorded(Device device, const Make& make, const Run& run) {
  const ParameterDict dict = two_parameters(device);
  Trainer trainer(dict, make());
  for (int i = 0; i < 4; ++i) {
    trainer.set_learning_rate(k_rates[i]);
    trainer.prepare_step(k_batches[i]);
    run(i == 0, [&] { trainer.apply_step(); });
  }
  CHECK(trainer.optimizer().num_updates() == 4);
  CHECK(trainer.optimizer().num_updates("1.weight") == 4);
  return values_of(dict);
}

template <class Make>
void check_sink(const Make& make) {
  Replay replay;
  const auto run = [&](bool first, const auto& apply) {
    const CallSinkScope taken(first ? &replay : nullptr);
    if (first)
      apply();
    else
      replay.again();
  };
  CHECK(recorded(cpu(), make, run) == pushed_anew(cpu(), make));
  CHECK(replay.calls() == 1);
}

/// An optimizer of a program's own, which knows nothing of recorded steps.
class Halving : public Optimizer {
 public:
  Halving() : Optimizer(0.5) {}
  std::string name() const override { return "Halving"; }

 protected:
  void apply(const Step& step) override {
    for (NDArray weight : step.weights)
      weight *= 0.5;
  }
  std::vector<std::string> slots() const override { return {}; }
};

template <class Make>
void check_region(const Make& make) {
  Region region(Engine::current(), gpu(0), "step");
  int records = 0;
  const auto run = [&](bool, const auto& apply) {
    region.run(0, [&] {
      ++records;
      apply();
    });
  };
  CHECK(recorded(gpu(), make, run) == pushed_anew(gpu(), make));
  CHECK(records == 1);
  Engine::current().wait_all();
  CHECK(region.counts().captured == 1);
  CHECK(region.counts().launched == 4);
}

}  // namespace

TEST_CASE("a step that a sink took and runs again takes the rate and number of each step", "[gluon][trainer]") {
  check_sink([] { return SGD(); });
  check_sink([] { return SGD({.momentum = 0.9, .wd = 0.01}); });
  check_sink([] { return Adam(); });
}

TEST_CASE("a step that a region replays takes the rate and number of each step", "[gluon][trainer][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_region([] { return SGD(); });
  check_region([] { return SGD({.momentum = 0.9, .wd = 0.01}); });
  check_region([] { return Adam(); });
}

TEST_CASE("a region refuses to record a step with its rates", "[gluon][trainer][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const ParameterDict dict = two_parameters(gpu());
  Trainer trainer(dict, Adam());
  Region region(Engine::current(), gpu(0), "step");
  CHECK_THROWS_AS(region.run(0, [&] { trainer.step(1); }), ValueError);
  CHECK_THROWS_AS(region.run(0, [&] { trainer.prepare_step(1); }), ValueError);
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
  CHECK_THROWS_AS(region.run(0, [&] { trainer.optimizer().prepare(entries, 1); }), ValueError);
  CHECK(trainer.optimizer().num_updates() == 0);
}

TEST_CASE("a region refuses to record the noise of SGLD, which it would repeat", "[gluon][trainer][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const ParameterDict dict = two_parameters(gpu(0));
  Trainer trainer(dict, gluon::optimizer::SGLD());
  Region region(Engine::current(), gpu(0), "step");
  trainer.prepare_step(1);
  CHECK_THROWS_WITH(region.run(0, [&] { trainer.apply_step(); }), contains("SGLD: a region would repeat"));
  CHECK_NOTHROW(trainer.apply_step());
}

TEST_CASE("a step that was not prepared, or for other parameters, is refused", "[gluon][trainer]") {
  const ParameterDict dict = two_parameters(cpu());
  Trainer trainer(dict, Adam());
  CHECK_THROWS_AS(trainer.apply_step(), ValueError);
  CHECK_THROWS_AS(trainer.prepare_step(0), ValueError);
  CHECK_THROWS_AS(trainer.apply_step(), ValueError);
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
  Adam adam;
  CHECK_THROWS_AS(adam.update_prepared(entries), ValueError);
  adam.prepare(entries, 1);
  CHECK_THROWS_AS(adam.update_prepared(std::span(entries).first(1)), ValueError);
  CHECK(adam.num_updates() == 1);
}

TEST_CASE("a step is not prepared while parameters that it would train have no value", "[gluon][trainer]") {
  gluon::nn::Dense dense(2);
  Trainer trainer(dense.collect_params(), SGD());
  CHECK_THROWS_AS(trainer.prepare_step(1), ValueError);  // nothing is initialised
  dense.initialize();
  CHECK_THROWS_WITH(trainer.prepare_step(1), contains("no value yet for 'weight'"));  // only the bias is
  CHECK(trainer.optimizer().num_updates() == 0);
  dense(ones({1, 3}));
  trainer.prepare_step(1);
  trainer.apply_step();
  CHECK(trainer.optimizer().num_updates("weight") == 1);
}

TEST_CASE("steps of several sets of parameters each keep the numbers prepared for them", "[gluon][trainer]") {
  const ParameterDict dict = two_parameters(cpu()), same = two_parameters(cpu());
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end()), others(same.begin(), same.end());
  const auto first = std::span(entries).first(1), second = std::span(entries).last(1);
  SGD sgd({.learning_rate = 0.1}), anew({.learning_rate = 0.1});
  Replay replay;
  sgd.prepare(entries, 1);
  {
    const CallSinkScope taken(&replay);
    sgd.update_prepared(entries);
  }
  sgd.prepare(first, 1);  // and one of another set
  CHECK_THROWS_AS(sgd.update_prepared(second), ValueError);
  sgd.update_prepared(first);
  sgd.set_learning_rate(0.5);
  sgd.prepare(entries, 0.25);
  replay.again();

  anew.update(others, 1);
  anew.update(std::span(others).first(1), 1);
  anew.set_learning_rate(0.5);
  anew.update(others, 0.25);
  CHECK(values_of(dict) == values_of(same));
}

TEST_CASE("a step that was prepared is none once states were loaded or it was taken back", "[gluon][trainer]") {
  const ParameterDict dict = two_parameters(cpu());
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
  Adam adam;
  adam.update(entries, 1);
  const auto states = adam.states();
  const auto before = values_of(dict);
  for (const bool loads : {true, false}) {
    adam.prepare(entries, 1);
    if (loads)
      adam.load_states(states);
    adam.cancel(entries);
    adam.cancel(entries);  // there is no other
    CHECK_THROWS_WITH(adam.update_prepared(entries), contains("was not prepared"));
    CHECK(adam.num_updates() == 1);
    CHECK(adam.num_updates("0.weight") == 1);
  }
  CHECK(values_of(dict) == before);
}

TEST_CASE("what sets of parameters read is kept where they are prepared or recorded", "[gluon][trainer]") {
  ParameterDict dict;
  for (int i = 0; i < 80; ++i) {
    const Parameter parameter("weight", {.shape = {3}});
    parameter.set_data(pattern_array({3}));
    dict.insert(message(10 + i, ".weight"), parameter);
  }
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
  const auto one = [&](std::size_t i) { return std::span(entries).subspan(i, 1); };
  SGD sgd;
  Replay replay;
  for (std::size_t i = 0; i < 40; ++i) {
    sgd.prepare(one(i), 1);
    const CallSinkScope taken(i == 1 ? &replay : nullptr);
    if (i < 2)
      sgd.update_prepared(one(i));
  }
  for (std::size_t i = 2; i < 40; ++i)
    CHECK_NOTHROW(sgd.update_prepared(one(i)));
  for (std::size_t i = 40; i < 80; ++i) {
    sgd.prepare(one(i), 1);
    sgd.update_prepared(one(i));
  }
  CHECK_NOTHROW(sgd.update_prepared(one(1)));
  CHECK_NOTHROW(sgd.update_prepared(one(79)));
  CHECK_THROWS_AS(sgd.update_prepared(one(0)), ValueError);  // long ago, and nobody recorded it
}

TEST_CASE("a step between leaves what was prepared as it was, of scaled losses too", "[gluon][trainer]") {
  const auto weights = [](const NDArray& scale) {
    const ParameterDict dict = two_parameters(cpu());
    const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
    SGD sgd;
    sgd.scale_losses(scale);
    sgd.prepare(entries, 1);
    sgd.update(entries, 0.001);
    sgd.update_prepared(entries);
    sgd.update(entries, 0.5);
    sgd.prepare(entries, 0.25);
    sgd.update_prepared(entries);
    return values_of(dict);
  };
  CHECK(weights(ones({})) == weights({}));
}

TEST_CASE("a step prepared before losses were scaled is refused, whatever was counted since", "[gluon][trainer]") {
  const ParameterDict dict = two_parameters(cpu());
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
  const auto first = std::span(entries).first(1);
  for (const bool steps_between : {false, true}) {
    Adam adam;
    adam.prepare(first, 1);
    adam.scale_losses(ones({}));
    if (steps_between)
      adam.update(entries, 1);
    CHECK_THROWS_WITH(adam.update_prepared(first), contains("before losses were scaled"));
    const auto counted = [&] { return adam.states().at("0.weight.num_updates").item<std::int64_t>(); };
    CHECK(counted() == 1);  // by the host, as what is prepared is, or by the device, which counts what ran
    adam.cancel(first);
    CHECK(adam.num_updates() == (steps_between ? 1 : 0));
    CHECK(counted() == (steps_between ? 1 : 0));
    adam.prepare(first, 1);
    CHECK_NOTHROW(adam.update_prepared(first));
    CHECK(counted() == (steps_between ? 2 : 1));
  }
}

TEST_CASE("a step that ran before losses were scaled is counted by the device", "[gluon][trainer]") {
  const ParameterDict dict = two_parameters(cpu());
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
  const auto first = std::span(entries).first(1);
  for (const bool recorded : {false, true}) {
    Adam adam;
    Replay replay;
    adam.prepare(first, 1);
    {
      const CallSinkScope taken(recorded ? &replay : nullptr);
      adam.update_prepared(first);
    }
    if (recorded) {
      adam.prepare(first, 1);
      replay.again();
    }
    adam.scale_losses(ones({}));
    adam.update(entries, 1);
    const auto states = adam.states();
    CHECK(states.at("0.weight.num_updates").item<std::int64_t>() == (recorded ? 3 : 2));
    CHECK(states.at("1.weight.num_updates").item<std::int64_t>() == 1);
  }
}

TEST_CASE("gradients may be guarded after a step was prepared", "[gluon][trainer]") {
  const ParameterDict dict = two_parameters(cpu());
  Trainer trainer(dict, SGD());
  trainer.prepare_step(1);
  trainer.guard_gradients({.max_norm = 1});
  trainer.apply_step();
  REQUIRE(trainer.optimizer().last_guard().defined());
  CHECK(values(trainer.optimizer().last_guard().astype(float32))[2] == 1);
}

TEST_CASE("errors of two calls on one line name each its own", "[gluon][trainer]") {
  Trainer trainer(two_parameters(cpu()), SGD());
  for (const bool first : {true, false})
    CHECK_THROWS_WITH(
        first ? trainer.prepare_step(0) : trainer.apply_step(),
        contains(first ? "Trainer::prepare_step" : "Trainer::apply_step"));
}

TEST_CASE("a trainer whose step was recorded refuses to prepare one of other parameters", "[gluon][trainer]") {
  const ParameterDict dict = two_parameters(cpu());
  Trainer trainer(dict, SGD());
  trainer.prepare_step(1);
  trainer.apply_step();  // nobody records: it may be another one next time
  dict["0.weight"].set_grad_req(GradReq::null);
  trainer.prepare_step(1);
  Replay replay;
  {
    const CallSinkScope taken(&replay);
    trainer.apply_step();
  }
  dict["0.weight"].set_grad_req(GradReq::write);
  CHECK_THROWS_WITH(trainer.prepare_step(1), contains("other parameters"));
  CHECK(trainer.optimizer().num_updates() == 2);
  dict["0.weight"].set_grad_req(GradReq::null);
  trainer.prepare_step(1);
  replay.again();
  CHECK(trainer.optimizer().num_updates("1.weight") == 3);
}

TEST_CASE("an optimizer of one's own without numbers_of steps, and says that it cannot be recorded", "[gluon]") {
  const ParameterDict dict = two_parameters(cpu());
  const std::vector<ParameterDict::Entry> entries(dict.begin(), dict.end());
  const std::vector<float> before = values(entries[0].second.data());
  Halving halving;
  halving.update(entries, 1);
  const std::vector<float> after = values(entries[0].second.data());
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(after[i] == before[i] / 2);
  CHECK_THROWS_AS(halving.prepare(entries, 1), UnsupportedError);
  CHECK_THROWS_WITH(halving.prepare(entries, 1), contains("Halving"));
  CHECK(halving.num_updates() == 1);
}
