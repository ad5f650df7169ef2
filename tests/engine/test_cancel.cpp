// Scopes of tasks that are cancelled together, and engines that are.
#include <atomic>
#include <stop_token>

#include <sluice/engine/api.h>

#include "tests/engine/expect.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T30: a scope cancels what has not begun, and nothing outside it") {
  for (const CpuMode policy : k_threaded) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var gated = engine.new_var(), inside = engine.new_var(), outside = engine.new_var();
    Gate gate;
    OpensAtEnd opens(gate);
    std::stop_source scope;
    std::atomic<int> ran_inside{0}, ran_outside{0};
    engine.push({.name = "hold", .access = {write(gated)}}, [gate] { gate.wait(); });
    for (int i = 0; i < 100; ++i) {
      engine.push({.name = "in scope", .access = {read(gated), write(inside)}, .stop = scope.get_token()}, [&] {
        ++ran_inside;
      });
      engine.push({.name = "beside", .access = {read(gated), write(outside)}}, [&] { ++ran_outside; });
    }
    scope.request_stop();
    gate.open();
    CHECK_NOTHROW(engine.wait(outside));
    CHECK_THAT(text_of_error([&] { engine.wait(inside); }), contains("in scope"));
    CHECK_THROWS_AS(engine.wait(inside), Cancelled);
    CHECK(ran_inside == 0);
    CHECK(ran_outside == 100);
    CHECK(engine.counters().skipped == 100);
  }
}

TEST_CASE("T30: a running body learns that its scope, or its handle, asks it to stop") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::stop_source scope;
  Gate begun;
  auto until_told = [begun](Queue queue) {
    begun.open();
    if (!eventually([&] { return queue.stop_requested(); }))
      throw ValueError("was never told");
    throw Cancelled("gave up half way");
  };
  engine.push({.name = "by scope", .access = {out(x)}, .stop = scope.get_token()}, until_told);
  CHECK(eventually([&] { return begun.is_open(); }));
  scope.request_stop();
  CHECK_THAT(text_of_error([&] { engine.wait(x); }), contains("gave up half way"));

  Gate again;
  std::atomic<bool> told{false};
  TaskHandle handle = engine.push({.name = "by handle", .access = {out(x)}}, [again, &told](Queue queue) {
    again.open();
    told = eventually([&] { return queue.stop_requested(); });
  });
  CHECK(eventually([&] { return again.is_open(); }));
  CHECK_FALSE(handle.cancel());  // too late to keep it from starting
  CHECK_NOTHROW(engine.wait(x));
  CHECK(told);
}

TEST_CASE("T30: what a body pushes belongs to its scope") {
  Engine engine({.workers = 2});
  Var child = engine.new_var(), own = engine.new_var();
  std::stop_source scope, other;
  Gate pushed, stopped;
  OpensAtEnd opens(stopped);
  bool ran_child = false, ran_own = false;
  engine.push({.name = "parent", .stop = scope.get_token()}, [&, pushed, stopped] {
    Var hold = engine.new_var();
    engine.push({.name = "hold", .access = {write(hold)}, .stop = other.get_token()}, [stopped] { stopped.wait(); });
    engine.push({.name = "child", .access = {read(hold), out(child)}}, [&] { ran_child = true; });
    engine.push(
        {.name = "own scope", .access = {read(hold), out(own)}, .stop = other.get_token()}, [&] { ran_own = true; });
    pushed.open();
  });
  CHECK(eventually([&] { return pushed.is_open(); }));
  scope.request_stop();
  stopped.open();
  CHECK_THROWS_AS(engine.wait(child), Cancelled);
  CHECK_NOTHROW(engine.wait(own));
  CHECK_FALSE(ran_child);
  CHECK(ran_own);
}

TEST_CASE("T31: an engine that stops by cancelling skips bodies, but not those that clean up") {
  std::atomic<int> ran{0}, cleaned{0}, told{0};
  {
    Engine engine({.workers = 2});
    Var gated = engine.new_var(), x = engine.new_var();
    Gate begun;
    engine.push({.name = "running", .access = {write(gated)}}, [&, begun](Queue queue) {
      begun.open();
      told += eventually([&] { return queue.stop_requested(); }) ? 1 : 0;
    });
    for (int i = 0; i < 50; ++i) {
      engine.push({.name = "work", .access = {read(gated), write(x)}}, [&] { ++ran; });
      engine.push({.name = "clean up", .access = {read(x)}, .on_failed_input = OnFailedInput::run}, [&] { ++cleaned; });
    }
    CHECK(eventually([&] { return begun.is_open(); }));
    engine.stop(Stop::cancel);
    CHECK_THROWS_AS(engine.push({.name = "late"}, [] {}), EngineStopped);
    CHECK(engine.counters().pushed == engine.counters().retired);
  }
  CHECK(told == 1);
  CHECK(ran == 0);
  CHECK(cleaned == 50);
}

TEST_CASE("T31: cancelling under load from 8 pushers: every push either counts or throws, and none is lost") {
  Engine engine({.workers = 2});
  std::atomic<std::uint64_t> accepted{0}, refused{0}, ran{0};
  std::atomic<bool> cancelled{false};
  std::vector<std::thread> pushers;
  for (int i = 0; i < 8; ++i) {
    pushers.emplace_back([&] {
      const Var own = engine.new_var();
      for (int k = 0; k < 100000 && refused.load() < 1000; ++k) {
        try {
          engine.push({.name = "load", .access = {write(own)}}, [&] { ran.fetch_add(1); });
          accepted.fetch_add(1);
        } catch (const EngineStopped&) {
          refused.fetch_add(1);
        }
      }
    });
  }
  CHECK(eventually([&] { return ran.load() > 1000; }));
  engine.stop(Stop::cancel);
  for (std::thread& pusher : pushers)
    pusher.join();
  const EngineCounters counters = engine.counters();
  CHECK(counters.pushed == counters.retired);
  CHECK(accepted == counters.pushed);
  CHECK(ran + counters.skipped == accepted);
}
