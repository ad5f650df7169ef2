// Streams of other libraries beside the engine's, on the simulated CUDA runtime.
#include <atomic>
#include <thread>

#include <sluice/engine/interop.h>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T56: what lies on a foreign stream comes before tasks that are pushed after its import", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Sim sim(seeded(seed));
    std::uint64_t value = 0, seen = 0;
    SimStream foreign;
    {
      Engine engine({.workers = 1});
      Var x = engine.new_var();
      for (int i = 0; i < 5; ++i)
        REQUIRE(sim::launch(foreign, [&value] { value = 3 * value + 1; }) == cudaSuccess);
      import_stream(engine, gpu(0), foreign.handle, {write(x)});
      engine.push({.name = "look", .device = gpu(0), .access = {read(x)}}, [&](Queue queue) {
        sim_launch(queue, [&] { seen = value; });
      });
      engine.wait_all();
    }
    CHECK(seen == 121);
  }
}

TEST_CASE(
    "T56: work on a foreign stream comes after the tasks before its export, and the host waits for no GPU", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  std::uint64_t value = 0, seen = 0;
  std::atomic<int> ran{0};
  SimStream foreign;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  for (int i = 0; i < 40; ++i) {
    engine.push({.name = "append", .device = gpu(0), .access = {write(x)}, .capturable = true}, [&](Queue queue) {
      sim_launch(queue, [&] {
        value = value * 3 + 1;
        ++ran;
      });
    });
  }
  export_stream(engine, gpu(0), foreign.handle, {write(x)});
  CHECK(ran == 0);
  REQUIRE(sim::launch(foreign, [&] { seen = value; }) == cudaSuccess);
  import_stream(engine, gpu(0), foreign.handle, {write(x)});
  engine.push({.name = "after", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    sim_launch(queue, [&] { value = 0; });
  });
  sim::set_manual(false);
  engine.wait(x);
  std::uint64_t expected = 0;
  for (int i = 0; i < 40; ++i)
    expected = expected * 3 + 1;
  CHECK(seen == expected);
  CHECK(value == 0);
}

TEST_CASE("T56: a stream under capture is refused by name, and the capture goes on", "[sim]") {
  Sim sim;
  SimStream foreign;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  REQUIRE(cudaStreamBeginCapture(foreign, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK_THAT(
      text_of_error([&] { import_stream(engine, gpu(0), foreign.handle, {write(x)}); }), contains("import_stream"));
  CHECK_THROWS_AS(export_stream(engine, gpu(0), foreign.handle, {write(x)}), ValueError);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(foreign, &graph) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK_THROWS_AS(import_stream(engine, gpu(7), foreign.handle, {write(x)}), DeviceError);
}

TEST_CASE("An export inside a task is refused; one of a stopped engine does not hang", "[sim]") {
  Sim sim;
  SimStream foreign;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  engine.push({.name = "inside", .access = {write(x)}}, [&] { export_stream(engine, gpu(0), foreign.handle, {}); });
  CHECK_THROWS_AS(engine.wait(x), Deadlock);
  engine.stop();
  CHECK_THROWS_AS(export_stream(engine, gpu(0), foreign.handle, {read(x)}), EngineStopped);
}

TEST_CASE("T56: an import is of what lies on the stream when it is called, though its task has to wait", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  Gate gate;
  const OpensAtEnd opens{gate};
  Log log;
  SimStream kept;
  engine.push({.name = "holds x", .access = {write(x)}}, [gate] { gate.wait(); });
  {
    SimStream dropped;
    REQUIRE(sim::launch(dropped, [&] { log.add(1); }) == cudaSuccess);
    import_stream(engine, gpu(0), dropped.handle, {write(x)});
  }
  REQUIRE(sim::launch(kept, [&] { log.add(2); }) == cudaSuccess);
  import_stream(engine, gpu(0), kept.handle, {write(x)});
  sim::run_all();
  sim::hold(kept);
  REQUIRE(sim::launch(kept, [&] { log.add(4); }) == cudaSuccess);  // nobody waits for it
  engine.push({.name = "after", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    sim_launch(queue, [&] { log.add(3); });
  });
  gate.open();
  sim::set_manual(false);
  CHECK(eventually([&] { return log.numbers().size() == 3; }));
  CHECK(log.numbers().back() == 3);
  sim::release(kept);
  CHECK_NOTHROW(engine.wait_all());
  CHECK(cudaStreamSynchronize(kept) == cudaSuccess);  // the 4 is in the log, which goes
}

TEST_CASE("A stream that CUDA refuses is the importer's error, and nothing is pushed", "[sim]") {
  Sim sim;
  SimStream foreign;
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  sim::fail_nth("cudaEventRecord", 1, cudaErrorInvalidResourceHandle);
  CHECK_THAT(
      text_of_error([&] { import_stream(engine, gpu(0), foreign.handle, {write(x)}); }), contains("import_stream"));
  CHECK_NOTHROW(engine.wait(x));
  sim::fail_nth("cudaStreamWaitEvent", 1, cudaErrorInvalidResourceHandle);
  import_stream(engine, gpu(0), foreign.handle, {write(x)});  // then the host waits
  CHECK_NOTHROW(engine.wait(x));
  CHECK(sim::failed_call() == "cudaStreamWaitEvent");
}

TEST_CASE("T56: where a GPU cannot be made to wait for an imported stream, the host does", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  SimStream foreign;
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  Log log;
  sim::hold(foreign);
  REQUIRE(sim::launch(foreign, [&] { log.add(1); }) == cudaSuccess);
  sim::fail_nth("cudaStreamWaitEvent", 1, cudaErrorInvalidResourceHandle);
  std::thread releases([&] {
    CHECK(eventually([] { return sim::failed_call() == "cudaStreamWaitEvent"; }));
    for (int looks = 0; looks < 2000 && log.numbers().empty(); ++looks) {
      sim::run_all();
      std::this_thread::yield();
    }
    sim::release(foreign);
    sim::set_manual(false);
  });
  import_stream(engine, gpu(0), foreign.handle, {write(x)});
  engine.push({.name = "after", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    sim_launch(queue, [&] { log.add(2); });
  });
  engine.flush();
  releases.join();
  CHECK_NOTHROW(engine.wait(x));
  CHECK(log.numbers() == std::vector{1, 2});
}

TEST_CASE("T56: an import orders what lies on the stream though a Var that it names has failed", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  Log log;
  SimStream foreign;
  engine.push({.name = "fails", .device = gpu(0), .access = {out(x)}}, [](Queue) { throw ValueError("no"); });
  sim::hold(foreign);
  REQUIRE(sim::launch(foreign, [&] { log.add(1); }) == cudaSuccess);
  import_stream(engine, gpu(0), foreign.handle, {read(x)});
  engine.push({.name = "overwrites", .device = gpu(0), .access = {out(x)}}, [&](Queue queue) {
    sim_launch(queue, [&] { log.add(2); });
  });
  sim::run_all();
  CHECK(log.numbers().empty());
  sim::release(foreign);
  sim::set_manual(false);
  CHECK_NOTHROW(engine.wait(x));
  CHECK(log.numbers() == std::vector{1, 2});
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
}

TEST_CASE("T56: a thread's own stream is that of the GPU which is named, whatever device is current", "[sim]") {
  const int current = GENERATE(0, 1);
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  int value = 0, seen = -1;
  engine.push({.name = "write", .device = gpu(1), .access = {write(x)}}, [&](Queue queue) {
    sim_launch(queue, [&] { value = 7; });
  });
  REQUIRE(cudaSetDevice(current) == cudaSuccess);
  export_stream(engine, gpu(1), cudaStreamPerThread, {read(x)});
  int kept = -1;
  CHECK((cudaGetDevice(&kept) == cudaSuccess && kept == current));
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  sim::launch(cudaStreamPerThread, [&] { seen = value; });
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  sim::set_manual(false);
  engine.wait_all();
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(seen == 7);
}
