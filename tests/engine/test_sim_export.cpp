// export_stream where the thread that calls it is the only one that can run what it waits for.
#include <boost/asio.hpp>

#include <sluice/engine/asio.h>
#include <sluice/engine/interop.h>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Exports behind `count` CPU tasks, from this thread. How many of them had run when export_stream returned.
int export_behind_tasks(Engine& engine, int count) {
  SimStream foreign;
  Var x = engine.new_var();
  std::atomic<int> ran{0};
  for (int i = 0; i < count; ++i)
    engine.push({.name = "before", .access = {write(x)}}, [&] { ++ran; });
  export_stream(engine, gpu(0), foreign.handle, {write(x)});
  const int at_return = ran;
  import_stream(engine, gpu(0), foreign.handle, {write(x)});
  engine.wait(x);
  return at_return;
}

}  // namespace

TEST_CASE("T56: an export runs the CPU tasks before it where nobody else does", "[sim]") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::chaos, CpuMode::chaos_pool}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Sim sim(seeded(seed));
      Engine engine({.workers = 1, .cpu_policy = policy, .chaos_seed = seed});
      CAPTURE(to_string(policy), seed);
      CHECK(export_behind_tasks(engine, 10) == 10);
    }
  }
}

TEST_CASE("T56: an export from the only thread of an executor runs the CPU tasks before it", "[sim]") {
  Sim sim;
  boost::asio::io_context context;
  int ran = 0;
  {
    Engine engine({.executor = run_on(context)});
    boost::asio::post(context, [&] { ran = export_behind_tasks(engine, 10); });
    context.run();
  }
  CHECK(ran == 10);
}
