// Counters add up, and each counts what its name says.
#include <atomic>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("Counters: run counts bodies, skipped what was cancelled or had a failed input, and both make retired") {
  Engine engine({.workers = 2});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var held = engine.new_var();
  std::atomic<int> bodies{0};
  engine.push({.name = "gate", .access = {write(held)}}, [&] {
    ++bodies;
    gate.wait();
  });
  TaskHandle cancelled = engine.push({.name = "cancelled", .access = {write(held)}}, [&] { ++bodies; });
  REQUIRE(cancelled.cancel());
  gate.open();
  for (int i = 0; i < 100; ++i) {
    const Var x = engine.new_var();
    engine.push({.name = "first", .access = {write(x)}}, [&bodies, i] {
      ++bodies;
      require(i % 10 != 0, [] { return "every tenth"; });
    });
    engine.push({.name = "second", .access = {read(x)}}, [&] { ++bodies; });
  }
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  const EngineCounters counters = engine.counters();
  CHECK(counters.pushed == 202);
  CHECK(counters.retired == counters.pushed);
  CHECK(counters.run == static_cast<std::uint64_t>(bodies));
  CHECK(counters.run == 191);
  CHECK(counters.skipped == 11);
  CHECK(counters.failed == 10);
}

TEST_CASE("Counters: what is read while tasks run never shows more tasks retired than pushed") {
  Engine engine({.workers = 2});
  std::atomic<bool> done{false};
  std::atomic<int> faults{0};
  std::thread reader([&] {
    while (!done) {
      const EngineCounters now = engine.counters();
      faults += now.pushed < now.retired || now.retired < now.run ? 1 : 0;
    }
  });
  const Var x = engine.new_var();
  engine.push({.name = "fails", .access = {write(x)}}, [] { throw ValueError("bad"); });
  for (int i = 0; i < 20'000; ++i) {
    engine.push({.name = "skipped", .access = {read(x)}}, [] {});
    engine.push({.name = "runs"}, [] {});
  }
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  done = true;
  reader.join();
  CHECK(faults == 0);
  CHECK(engine.counters().skipped == 20'000);
}

TEST_CASE("Counters: a push that a stopped engine refuses is not counted") {
  Engine engine({.workers = 1});
  engine.push({.name = "fine"}, [] {});
  engine.stop();
  CHECK_THROWS_AS(engine.push({.name = "late"}, [] {}), EngineStopped);
  const EngineCounters counters = engine.counters();
  CHECK(counters.pushed == 1);
  CHECK(counters.retired == 1);
  CHECK(counters.run == 1);
}

TEST_CASE("Counters: a wait counts when it has to wait, and only then") {
  Engine engine({.workers = 1});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var x = engine.new_var();
  engine.push({.name = "gate", .access = {write(x)}}, [gate] { gate.wait(); });
  std::thread waiter([&] { engine.wait(x); });
  CHECK(eventually([&] { return engine.counters().waits == 1; }));
  std::thread drainer([&] { engine.wait_all(); });
  gate.open();
  waiter.join();
  drainer.join();
  const auto before = engine.counters().waits;
  CHECK(before <= 2);
  engine.wait_all();
  CHECK(engine.counters().waits == before);
}

TEST_CASE("Counters: stolen tasks, full rings, tasks that run next and parked workers are seen") {
  SECTION("stolen") {
    Engine engine({.workers = 2});
    std::atomic<int> ran{0};
    bool helped = false;
    engine.push({.name = "owner"}, [&](Queue queue) {
      for (int i = 0; i < 10; ++i)
        queue.engine().push({.name = "child"}, [&] { ++ran; });
      helped = eventually([&] { return ran > 0; });  // this worker is taken: another one ran a child of its ring
    });
    engine.wait_all();
    CHECK(helped);
    CHECK(engine.counters().stolen >= 1);
    CHECK(engine.counters().stolen <= 10);
  }
  SECTION("overflowed") {
    Engine engine({.workers = 1});
    engine.push({.name = "owner"}, [](Queue queue) {
      for (int i = 0; i < 10'000; ++i)
        queue.engine().push({.name = "child"}, [] {});
    });
    engine.wait_all();
    CHECK(engine.counters().overflowed > 0);
    CHECK(engine.counters().overflowed < 10'000);
    CHECK(engine.counters().stolen == 0);
  }
  SECTION("run next") {
    Engine engine({.workers = 1});
    const Gate gate;
    const OpensAtEnd opens(gate);
    const Var x = engine.new_var();
    engine.push({.name = "gate", .access = {write(x)}}, [gate] { gate.wait(); });
    for (int i = 0; i < 5; ++i)
      engine.push({.name = "link", .access = {write(x)}}, [] {});
    CHECK(engine.counters().run_next == 0);
    gate.open();
    engine.wait_all();
    CHECK(engine.counters().run_next == 5);
  }
  SECTION("parked") {
    Engine engine({.workers = 1});
    CHECK(engine.counters().parked == 0);
    engine.push({.name = "task"}, [] {});
    engine.wait_all();
    CHECK(eventually([&] { return engine.counters().parked >= 1; }));
  }
}

TEST_CASE("Counters print with their names") {
  EngineCounters counters{.pushed = 1, .retired = 2, .run = 3, .skipped = 4, .failed = 5, .waits = 6};
  counters.bytes_in_flight = 17;
  counters.peak_bytes_in_flight = 18;
  counters.gpu_bytes_in_flight = 19;
  counters.peak_gpu_bytes_in_flight = 20;
  counters.rests = 21;
  counters.run_next = 7;
  counters.stolen = 8;
  counters.overflowed = 9;
  counters.parked = 10;
  counters.run_ahead = 22;
  counters.stream_waits = 11;
  counters.batches = 12;
  counters.batched = 13;
  counters.graphs_made = 15;
  counters.reissued = 16;
  const std::string text = to_string(counters);
  CHECK(
      text ==
      "pushed 1, retired 2, run 3, skipped 4, failed 5, waits 6, bytes_in_flight 17, "
      "peak_bytes_in_flight 18, gpu_bytes_in_flight 19, peak_gpu_bytes_in_flight 20, rests 21, run_next 7, "
      "stolen 8, overflowed 9, parked 10, run_ahead 22, stream_waits 11, batches 12, batched 13, "
      "graphs_made 15, "
      "reissued 16");
  std::ostringstream out;
  out << counters;
  CHECK(out.str() == text);
}
