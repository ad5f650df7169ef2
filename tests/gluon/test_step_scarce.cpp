// Steps of a trainer of which an allocation on the host fails: they are made or not, and can be made again.
#include <algorithm>
#include <exception>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/operator/detail/call_record.h>

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

/// Takes what recycled memory pushes would find, all but so much of each kind: then they ask the heap. It stays the
/// pools'.
void leave_in_pools(int spare) {
  const auto take_all = [spare](const auto& take, const auto& give) {
    for (bool asked = false; !asked;) {
      const long before = allocations_here();
      take();
      asked = allocations_here() != before;
    }
    std::vector<decltype(take())> rest;
    for (int i = 1; i < 64; ++i)  // what came with it
      rest.push_back(take());
    for (int i = 0; i < spare; ++i)
      give(rest[static_cast<std::size_t>(i)]);
  };
  using Nodes = detail::NodePool<detail::TaskNode, &detail::TaskNode::next>;
  take_all([] { return Nodes::take(); }, [](detail::TaskNode* node) { Nodes::give(node); });
  take_all(
      [] { return detail::CallRecord::take(); }, [](detail::CallRecord* one) { detail::CallRecord::give_back(one); });
  for (const std::size_t bytes : {128, 256})
    take_all([bytes] { return detail::take_block(bytes); }, [bytes](void* block) { detail::give_block(block, bytes); });
}

// More than a step pushes.
constexpr int k_most_spare = 16;

/// A gate for a task, open at the end.
struct Held {
  std::shared_ptr<std::latch> gate = std::make_shared<std::latch>(1);

  ~Held() { gate->count_down(); }
};

enum class Scaled { by_trainer, in_halves, by_scaler };

/// What a second step of scaled losses makes whose `nth` allocation fails, and which is then made again; false once it
/// has fewer. `fails`: those that threw.
bool is_scaled_step_made_once(long nth, Scaled how, int spare, All& found, int& fails) {
  const ScaledTraining training(optimizers()["Adam"]);
  Trainer& trainer = *training.trainer;
  GradScaler scaler({.init_scale = 4, .growth_interval = 1});
  if (how != Scaled::by_scaler)
    amp::init_trainer(trainer, scaler);
  int made = 0;
  const auto go_on = [&] {
    if (made == 0 && how == Scaled::in_halves)
      trainer.prepare_step(4);
    made = std::max(made, 1);
    if (made == 1)
      how == Scaled::by_scaler   ? scaler.step(trainer, 4)
      : how == Scaled::in_halves ? trainer.apply_step()
                                 : trainer.step(4);
    made = 2;
    if (how == Scaled::by_scaler)
      scaler.update();
  };
  scaler.scale(training.losses(0)).backward();
  go_on();
  scaler.scale(training.losses(1)).backward();
  made = 0;
  Engine::current().wait_all();
  std::optional<Held> held(std::in_place);  // so that no task gives back what it took
  std::vector<NDArray> grads;
  for (const auto& [name, parameter] : training.net.collect_params())
    grads.push_back(parameter.grad());
  push_task({.name = "held"}, {.writes = grads}, [gate = held->gate](const ArrayCall&) { gate->wait(); });
  leave_in_pools(spare);
  Scarcity scarcity(nth);
  scarcity.arm();
  bool threw = false;
  try {
    go_on();
  } catch (const std::exception&) {
    threw = true;
  }
  scarcity.disarm();
  INFO("allocation " << nth << " at " << Scarcity::where());
  if (threw)
    REQUIRE_NOTHROW(go_on());
  held.reset();
  fails += threw ? 1 : 0;
  CHECK(trainer.optimizer().num_updates() == 2);
  try {
    found = training.all();
    found["scale"] = {scale_of(scaler)};
  } catch (const TaskFailed&) {  // a task got none, and says so to whoever reads
    found.clear();
  }
  return scarcity.struck();
}

}  // namespace

TEST_CASE("A scaled step of which an allocation fails is counted, and its scale followed, once", "[gluon][amp]") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  for (const Scaled how : {Scaled::by_trainer, Scaled::in_halves, Scaled::by_scaler}) {
    CAPTURE(how);
    All expected, found;
    int fails = 0;
    REQUIRE_FALSE(is_scaled_step_made_once(1L << 40, how, 0, expected, fails));
    REQUIRE(expected["scale"] == std::vector<float>{16});
    for (int spare = 0; spare < k_most_spare; ++spare) {
      CAPTURE(spare);
      for (long nth = 1; is_scaled_step_made_once(nth, how, spare, found, fails); ++nth) {
        INFO("allocation " << nth << " at " << Scarcity::where());
        CHECK((found.empty() || found == expected));
      }
    }
    CHECK(fails > 5);
  }
}

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
