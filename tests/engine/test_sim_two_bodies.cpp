// A thread in bodies of two GPUs at once, on the simulated CUDA runtime: one waits for the other's batch, which does
// not become a graph, so that its bodies are called again there.
#include <atomic>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("A body that is called again inside a body for another GPU waits for places of its own GPU", "[sim]") {
  const int outer = GENERATE(0, 1), inner = 1 - outer;
  CAPTURE(outer);
  Sim sim;
  sim.keep_batches_open();
  int calls = 0, early = 0;
  std::atomic<int> ran{0};
  PositionSet late;
  Engine engine({.workers = 1});
  const Var x = engine.new_var(), y = engine.new_var();
  const Task step{.name = "step", .device = gpu(inner), .access = {write(x)}, .capturable = true};
  for (int i = 0; i < 6; ++i)
    engine.push(step, [&](Queue queue) { sim_launch(queue, [&] { ++ran; }); });
  engine.push(step, [&](Queue queue) {
    if (++calls == 1)
      late.add(queue.position());
    sim_launch(queue, [&] { ++ran; });
    if (calls == 1)
      return;
    PositionSet own;
    own.add(queue.position());
    detail::EngineAccess::wait_passed(queue.engine(), own);
    early += ran != 7 ? 1 : 0;
  });
  REQUIRE(calls == 1);
  engine.push({.name = "waits", .device = gpu(outer), .access = {write(y)}}, [&](Queue queue) {
    sim::fail_nth("cudaGraphInstantiate", 1, cudaErrorUnknown);
    queue.wait_for(late);
    sim_launch(queue, [&] { early += ran != 7 ? 1 : 0; });
  });
  CHECK_NOTHROW(engine.wait_all());
  CHECK(sim::failed_call() == "cudaGraphInstantiate");
  CHECK(calls == 2);
  CHECK(early == 0);
  CHECK(ran == 7);
}

TEST_CASE("Bodies that are called again are on their own GPU, whoever has the batch launched", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  std::atomic<int> ran{0}, elsewhere{0};
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  for (int i = 0; i < 8; ++i) {
    engine.push({.name = "step", .device = gpu(1), .access = {write(x)}, .capturable = true}, [&](Queue queue) {
      int device = -1;
      cudaGetDevice(&device);
      elsewhere += device != 1 ? 1 : 0;
      sim_launch(queue, [&] { ++ran; });
    });
  }
  sim::fail_nth("cudaGraphInstantiate", 1, cudaErrorUnknown);
  CHECK_NOTHROW(engine.wait(x));
  CHECK(sim::failed_call() == "cudaGraphInstantiate");
  CHECK(engine.counters().reissued > 0);
  CHECK(elsewhere == 0);
  CHECK(ran == 8);
}
