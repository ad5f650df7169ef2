// Steps that are recorded once and run again: rates and the step's number are read when they run.
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/region.h>
#include <sluice/operator/sink.h>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Parameter;
using gluon::ParameterDict;
using gluon::Trainer;
using gluon::optimizer::Adam;
using gluon::optimizer::Optimizer;
using gluon::optimizer::SGD;

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
  check_sink([] { return SGD({.momentum = 0.9, .weight_decay = 0.01}); });
  check_sink([] { return Adam(); });
}

TEST_CASE("a step that a region replays takes the rate and number of each step", "[gluon][trainer][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_region([] { return SGD(); });
  check_region([] { return SGD({.momentum = 0.9, .weight_decay = 0.01}); });
  check_region([] { return Adam(); });
}

TEST_CASE("a region refuses to record a step with its rates", "[gluon][trainer][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const ParameterDict dict = two_parameters(gpu());
  Trainer trainer(dict, Adam());
  Region region(Engine::current(), gpu(0), "step");
  CHECK_THROWS_AS(region.run(0, [&] { trainer.step(1); }), ValueError);
  CHECK(trainer.optimizer().num_updates() == 0);
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
