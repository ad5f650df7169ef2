// Steps of a trainer of which an allocation on the host fails: they are made or not, and can be made again.
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "tests/gluon/scaled_training.h"
#include "tests/support/scarce.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using All = std::map<std::string, std::vector<float>>;

/// What a trainer's first step makes whose `nth` allocation fails, and which is then made again. False once it has
/// fewer.
bool is_made_once(long nth, bool in_halves, All& found) {
  const ScaledTraining training(optimizers()["Adam"]);
  Trainer& trainer = *training.trainer;
  training.losses(0).backward();
  int made = in_halves ? 0 : 1;
  const auto go_on = [&] {
    if (made == 0) {
      trainer.prepare_step(4);
      made = 1;
    }
    if (made == 1)
      in_halves ? trainer.apply_step() : trainer.step(4);
    made = 2;
  };
  Scarcity scarcity(nth);
  scarcity.arm();
  try {
    go_on();
  } catch (const std::exception&) {
  }
  scarcity.disarm();
  go_on();
  CHECK(trainer.optimizer().num_updates() == 1);
  try {
    found = training.all();
  } catch (const TaskFailed&) {  // the step's own task got none, and says so to whoever reads
    found.clear();
  }
  return scarcity.struck();
}

}  // namespace

TEST_CASE("A first step of which an allocation fails is made whole when it is made again", "[gluon][trainer]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  for (const bool in_halves : {false, true}) {
    CAPTURE(in_halves);
    All expected, found;
    REQUIRE_FALSE(is_made_once(1L << 40, in_halves, expected));
    int made = 0;
    for (long nth = 1; is_made_once(nth, in_halves, found); ++nth) {
      INFO("allocation " << nth << " at " << Scarcity::where());
      CHECK((found.empty() || found == expected));
      made += found.empty() ? 0 : 1;
    }
    CHECK(made > 20);
  }
}

TEST_CASE("A scale that is set, or loaded with its trainer's states, is written whole or not at all", "[gluon][amp]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  const ScaledTraining source(optimizers()["Adam"]);
  amp::init_trainer(*source.trainer, {.init_scale = 8});
  source.own({0});
  source.own({1});
  const auto states = source.trainer->states();
  for (const bool loads : {false, true}) {
    CAPTURE(loads);
    int failures = 0;
    bool struck = true;
    for (long nth = 1; struck; ++nth) {
      const ScaledTraining training(optimizers()["Adam"]);
      const GradScaler scaler({.init_scale = 4});
      amp::init_trainer(*training.trainer, scaler);
      training.own({0});
      const auto all = [&] {
        All found = training.all();
        found["scale"] = {scale_of(scaler), scaler.clean_steps().astype(float32).item<float>()};
        return found;
      };
      const All before = all();
      Scarcity scarcity(nth);
      scarcity.arm();
      bool threw = false;
      try {
        loads ? training.trainer->load_states(states, "memory") : scaler.set_loss_scale(16);
      } catch (const std::exception&) {
        threw = true;
      }
      scarcity.disarm();
      struck = scarcity.struck();
      failures += threw ? 1 : 0;
      INFO("allocation " << nth << " at " << Scarcity::where());
      CHECK((threw == (all() == before)));
    }
    CHECK(failures > 1);
  }
}
