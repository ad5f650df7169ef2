// Engines that are started again after stop().
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>
#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/expect.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("A stopped engine starts again, with its Vars, under every policy") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine({.workers = policy == CpuMode::pool ? 2 : 0, .cpu_policy = policy});
    Var x = engine.new_var();
    int value = 0;
    for (int round = 1; round <= 20; ++round) {
      for (int i = 0; i < 10; ++i)
        engine.push({.name = "adds", .access = {write(x)}}, [&] { ++value; });
      engine.stop();
      CHECK(value == 10 * round);
      CHECK_THROWS_AS(engine.push({.name = "late"}, [] {}), EngineStopped);
      engine.restart();
    }
    engine.push({.name = "last", .access = {write(x)}}, [&] { ++value; });
    engine.wait(x);
    CHECK(value == 201);
    CHECK(x.version() == 201);
  }
}

TEST_CASE("After a stop that cancelled, bodies run again, coroutines sleep again and completions are not told") {
  Engine engine({.workers = 2, .report_failures = false});
  Var x = engine.new_var();
  Gate gate;
  std::thread opens([&] {
    gate.reached();
    gate.open();
  });
  TaskHandle runs = engine.push({.name = "holds", .access = {write(x)}}, [gate] { gate.wait(); });
  bool ran = false;
  engine.push({.name = "skipped", .access = {out(x)}}, [&] { ran = true; });
  REQUIRE(eventually([&] { return gate.is_open(); }));
  engine.stop(Stop::cancel);
  opens.join();
  engine.restart();
  TaskCompletion completion;
  Gate there;
  TaskHandle outside = engine.push({.name = "outside", .access = {out(x)}}, [&](Queue queue) {
    completion = queue.complete_later();
    there.open();
  });
  bool resumed = false;
  TaskHandle sleeps = engine.push({.name = "sleeps"}, [&]() -> Coroutine {
    co_await x;
    resumed = true;
  });
  REQUIRE(there.wait());
  CHECK_FALSE(completion.stop_token().stop_requested());
  completion.complete();
  CHECK_NOTHROW(sleeps.wait());
  CHECK(resumed);
  CHECK_NOTHROW(engine.wait(x));
}

TEST_CASE("restart is for engines that have stopped, outside their tasks") {
  Engine engine({.workers = 1});
  CHECK_THROWS_AS(engine.restart(), ValueError);
  engine.stop();
  engine.restart();
  CHECK_THROWS_AS(engine.restart(), ValueError);
  TaskHandle inside = engine.push({.name = "inside"}, [&] { engine.restart(); });
  CHECK_THROWS_AS(inside.wait(), Deadlock);
}

TEST_CASE("Failures that a stop has reported are not told again") {
  Engine engine({.workers = 1, .report_failures = false});
  Var x = engine.new_var();
  engine.push({.name = "fails", .access = {write(x)}}, [] { throw ValueError("old"); });
  engine.stop();
  engine.restart();
  CHECK_THROWS_AS(engine.wait(x), ValueError);  // the Var says so still
  engine.push({.name = "overwrites", .access = {out(x)}}, [] {});
  CHECK_NOTHROW(engine.wait_all());
  CHECK_NOTHROW(engine.wait(x));
}

TEST_CASE("An attached thread works on for the engine that was started again") {
  Engine engine({.workers = 1});
  const AttachScope attached(engine);
  std::atomic<int> ran{0};
  for (int round = 1; round <= 5; ++round) {
    for (int i = 0; i < scaled(500); ++i)
      engine.push({.name = "short"}, [&] { ++ran; });
    engine.wait_all();
    CHECK(ran == round * scaled(500));
    engine.stop();
    engine.restart();
  }
}

TEST_CASE("An engine on the application's threads starts again") {
  boost::asio::thread_pool threads(2);
  {
    Engine engine({.executor = run_on(threads, 2)});
    std::atomic<int> ran{0};
    for (int round = 1; round <= 5; ++round) {
      for (int i = 0; i < 50; ++i)
        engine.push({.name = "posted"}, [&] { ++ran; });
      engine.stop();
      CHECK(ran == 50 * round);
      engine.restart();
    }
  }
}

TEST_CASE("Groups, parallel_for and blocked bodies work after a restart") {
  Engine engine({.workers = 2});
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> sum{0};
    TaskGroup group(engine);
    for (int i = 0; i < 8; ++i) {
      group.push({.name = "outer"}, [&] {
        parallel_for(100, 10, [&](std::int64_t begin, std::int64_t end) { sum += static_cast<int>(end - begin); });
        engine.push({.name = "inner"}, [&] { ++sum; }).wait();
      });
    }
    group.wait();
    CHECK(sum == 808);
    engine.stop();
    engine.restart();
  }
}

TEST_CASE("Where no thread can be had after a restart, the push says so") {
  Engine engine({.workers = 2});
  engine.push({.name = "before"}, [] {}).wait();
  engine.stop();
  detail::test_faults().most_workers = 0;
  engine.restart();
  CHECK_THROWS_AS(engine.push({.name = "after"}, [] {}), ThreadError);
  detail::test_faults().most_workers = 1 << 20;
  CHECK_NOTHROW(engine.push({.name = "later"}, [] {}).wait());
}

TEST_CASE("Of two stops at once both return, also where the first one's caller starts the engine again at once") {
  for (int round = 0; round < scaled(20); ++round) {
    Engine engine({.workers = 1});
    Gate gate;
    OpensAtEnd opens(gate);
    std::atomic<bool> stops{false}, stopped{false};
    engine.push({.name = "holds"}, [gate] { gate.wait(); });
    REQUIRE(gate.reached());
    std::thread second([&] {
      stops = true;
      engine.stop();
      stopped = true;
    });
    std::thread opener([&] {
      eventually([&] { return stops.load(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // of no consequence to what must hold
      gate.open();
    });
    engine.stop();
    engine.restart();
    opener.join();
    const bool both = eventually([&] { return stopped.load(); });
    CHECK(both);
    if (!both)
      engine.stop();  // which lets the other go
    second.join();
  }
}
