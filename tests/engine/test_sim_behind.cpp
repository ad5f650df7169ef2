// What is done once the GPU has passed some work (EngineAccess::run_behind), which nobody waits for.
#include <atomic>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;
using detail::EngineAccess;

namespace {

/// Done when a Var retires, behind what that left pending.
struct Behind final : RetireHook, detail::WorkBehind {
  Engine* engine = nullptr;
  std::atomic<int> runs{0};
  std::atomic<bool> refused{false}, retired{false};
  void on_retire(const PositionSet& pending) noexcept override {
    refused = !EngineAccess::run_behind(*engine, pending, *this);
    retired = true;
  }
  void run() noexcept override { ++runs; }
};

/// A Var whose last use is a held kernel.
void use_and_drop(Engine& engine, Behind& behind, cudaStream_t& stream, std::atomic<bool>& ran) {
  behind.engine = &engine;
  const Var x = engine.new_var({.home = gpu(0), .on_retire = &behind});
  engine.push({.name = "use", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    stream = static_cast<cudaStream_t>(queue.stream());
    sim_launch(queue, [&] { ran = true; });
  });
}

}  // namespace

TEST_CASE("What is behind GPU work runs when that is done, and the wait for all tasks covers it", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Sim sim({.seed = seed, .manual = true});
    Behind behind;
    std::atomic<bool> ran{false};
    cudaStream_t stream = nullptr;
    Engine engine({.workers = 1});
    use_and_drop(engine, behind, stream, ran);
    REQUIRE(eventually([&] { return behind.retired.load(); }));
    const int blocking = sim::blocking_calls();
    CHECK(behind.runs == 0);
    CHECK_FALSE(ran);
    CHECK(sim::blocking_calls() == blocking);
    sim::set_manual(false);
    engine.wait_all();
    CHECK(ran);
    CHECK(behind.runs == 1);
  }
}

TEST_CASE("What is behind work of a lost GPU is done all the same", "[sim]") {
  Sim sim({.manual = true});
  Behind behind;
  std::atomic<bool> ran{false};
  cudaStream_t stream = nullptr;
  {
    Engine engine({.workers = 1, .report_failures = false});
    use_and_drop(engine, behind, stream, ran);
    REQUIRE(eventually([&] { return behind.retired.load(); }));
    CHECK(behind.runs == 0);
    sim::lose_device(0);
    CHECK_THROWS_AS(engine.wait_all(), DeviceLost);
    CHECK(eventually([&] { return behind.runs.load() == 1; }));
  }
  CHECK(behind.runs == 1);
  CHECK_FALSE(ran);
}

TEST_CASE("What nothing stands before is done at once, also where the engine has stopped", "[sim]") {
  Sim sim;
  Behind first, second;
  Engine engine({.workers = 1});
  first.engine = second.engine = &engine;
  engine.new_var({.on_retire = &first});
  CHECK(first.runs == 1);
  Var kept = engine.new_var({.on_retire = &second});
  engine.stop();
  kept = Var();
  CHECK(second.runs == 1);
  CHECK_FALSE(second.refused);
}

TEST_CASE("A task's end leaves what is behind it to another task, which a stop waits for", "[sim]") {
  Sim sim;
  Behind behind;
  const Gate gate;
  Engine engine({.workers = 1});
  behind.engine = &engine;
  {
    const Var x = engine.new_var({.on_retire = &behind});
    engine.push({.name = "hold", .access = {write(x)}}, [gate] { gate.wait(); });
  }
  REQUIRE(gate.reached());
  CHECK(behind.runs == 0);
  gate.open();
  engine.stop();
  CHECK(behind.runs == 1);
}
