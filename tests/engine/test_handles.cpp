// What can be done with the handle that push returns.
#include <memory>
#include <thread>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T30: a queued task that is cancelled does not run; its Vars carry Cancelled") {
  Engine engine({.workers = 2});
  Var gated = engine.new_var(), result = engine.new_var(), state = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  bool ran = false;
  engine.push({.name = "hold", .access = {write(gated)}}, [gate] { gate.wait(); });
  TaskHandle handle =
      engine.push({.name = "unwanted", .access = {read(gated), out(result), write(state)}}, [&] { ran = true; });
  CHECK(handle.cancel());
  CHECK(handle.cancel());
  gate.open();
  CHECK_THAT(text_of_error([&] { engine.wait(result); }), contains("unwanted"));
  CHECK_THROWS_AS(engine.wait(result), Cancelled);
  CHECK_THROWS_AS(handle.wait(), Cancelled);
  CHECK_FALSE(ran);
  expect_error<Cancelled>(
      [&] { engine.wait(state); },
      [&](const Cancelled& error) {
        CHECK(engine.forgive(error));  // it kept its value, one update missing
      });
  CHECK_NOTHROW(engine.wait(state));
  CHECK_THROWS_AS(engine.wait(result), Cancelled);
  CHECK_NOTHROW(engine.wait(gated));
  CHECK_FALSE(handle.cancel());
}

TEST_CASE("T30: a task whose Vars are free, but which waits for a worker, can be cancelled") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  bool ran = false;
  engine.push({.name = "occupies the worker"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  TaskHandle handle = engine.push({.name = "unwanted", .access = {write(x)}}, [&] { ran = true; });
  CHECK(handle.cancel());
  gate.open();
  CHECK_THROWS_AS(engine.wait(x), Cancelled);
  CHECK_FALSE(ran);
}

TEST_CASE("T30: a running or finished task cannot be cancelled") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  int value = 0;
  TaskHandle handle = engine.push({.name = "runs", .access = {write(x)}}, [&, gate] {
    gate.wait();
    value = 1;
  });
  REQUIRE(gate.reached());
  CHECK_FALSE(handle.cancel());
  gate.open();
  handle.wait();
  CHECK(value == 1);
  CHECK_FALSE(handle.cancel());
  CHECK_NOTHROW(engine.wait(x));
}

TEST_CASE("T30: cancelling from many threads while tasks run: each task either ran or was cancelled") {
  Engine engine({.workers = 2});
  const int rounds = scaled(20'000);
  std::atomic<int> runs{0};
  std::atomic<int> cancelled{0};
  for (int i = 0; i < rounds; ++i) {
    TaskHandle handle = engine.push({.name = "race"}, [&] { ++runs; });
    cancelled += handle.cancel() ? 1 : 0;
  }
  engine.stop();
  CHECK(runs + cancelled == rounds);
}

TEST_CASE("A cancelled writer's readers are skipped with Cancelled, an overwriter mends the Var") {
  Engine engine({.workers = 2});
  Var gated = engine.new_var(), x = engine.new_var(), y = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  bool reader_ran = false;
  engine.push({.name = "hold", .access = {write(gated)}}, [gate] { gate.wait(); });
  TaskHandle handle = engine.push({.name = "unwanted", .access = {read(gated), out(x)}}, [] {});
  engine.push({.name = "reader", .access = {read(x), out(y)}}, [&] { reader_ran = true; });
  CHECK(handle.cancel());
  gate.open();
  CHECK_THROWS_AS(engine.wait(y), Cancelled);
  CHECK_FALSE(reader_ran);
  engine.push({.name = "overwrite", .access = {out(x)}}, [] {});
  CHECK_NOTHROW(engine.wait(x));
}

TEST_CASE("A handle waits for its own task and rethrows what it threw") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var x = engine.new_var();
    int value = 0;
    TaskHandle fine = engine.push({.name = "fine", .access = {write(x)}}, [&] { value = 5; });
    fine.wait();
    CHECK(value == 5);
    TaskHandle bad = engine.push({.name = "bad", .access = {write(x)}}, [] { throw ValueError("thrown once"); });
    for (int i = 0; i < 2; ++i)
      CHECK_THAT(text_of_error([&] { bad.wait(); }), contains("thrown once"));
    TaskHandle skipped = engine.push({.name = "skipped", .access = {read(x)}}, [] {});
    CHECK_THAT(text_of_error([&] { skipped.wait(); }), contains("thrown once"));
    CHECK_NOTHROW(fine.wait());
  }
}

TEST_CASE("A handle's wait does not wait for other tasks") {
  Engine engine({.workers = 2});
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "held"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  TaskHandle handle = engine.push({.name = "free"}, [] {});
  handle.wait();
  CHECK(gate.inside() == 1);
}

TEST_CASE("A discarded handle changes nothing; an empty one is refused") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  int value = 0;
  {
    TaskHandle dropped = engine.push({.name = "runs", .access = {write(x)}}, [&] { ++value; });
  }
  TaskHandle moved_from = engine.push({.name = "runs", .access = {write(x)}}, [&] { ++value; });
  TaskHandle handle = std::move(moved_from);
  handle.wait();
  engine.wait(x);
  CHECK(value == 2);
  TaskHandle empty;
  CHECK_THROWS_AS(empty.cancel(), ValueError);
  CHECK_THROWS_AS(empty.wait(), ValueError);
}

TEST_CASE("A handle may outlive its engine; what the body held is gone by then") {
  TaskHandle handle, failed, coroutine;
  auto held = std::make_shared<int>(7);
  {
    Engine engine({.workers = 2});
    Var x = engine.new_var();
    handle = engine.push({.name = "holds"}, [held] { (void)*held; });
    failed = engine.push({.name = "fails"}, [held] { throw ValueError(message("value ", *held)); });
    coroutine = engine.push({.name = "awaits"}, [held, &x]() -> Coroutine { co_await x; });
    engine.wait(x);
    CHECK_NOTHROW(coroutine.wait());
  }
  CHECK(held.use_count() == 1);
  CHECK_NOTHROW(handle.wait());
  CHECK_THROWS_AS(failed.wait(), ValueError);
  CHECK_FALSE(handle.cancel());
  CHECK_FALSE(coroutine.cancel());  // and reads nothing that went with the engine
  CHECK(coroutine.status() == TaskStatus::finished);
}

TEST_CASE("A cancelled or skipped body is destroyed unrun") {
  Engine engine({.workers = 1});
  auto held = std::make_shared<int>(1);
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "hold"}, [gate] { gate.wait(); });
  TaskHandle cancelled = engine.push({.name = "cancelled", .access = {write(x)}}, [held] { *held = 2; });
  CHECK(cancelled.cancel());
  engine.push({.name = "skipped", .access = {read(x)}}, [held] { *held = 3; });
  gate.open();
  engine.stop();
  CHECK(held.use_count() == 1);
  CHECK(*held == 1);
}
