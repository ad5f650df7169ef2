// Bodies that throw when they are called again, or late, on the simulated CUDA runtime: their tasks have finished by
// then, and fail all the same.
#include <atomic>
#include <exception>
#include <thread>

#include <sluice/engine/pending_wait.h>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;

namespace {

Task captured(const TaskName& name, AccessList access) {
  return {.name = name, .device = gpu(0), .access = std::move(access), .capturable = true};
}

/// A batch is open, and nothing launches it. `x` is written there by a body that throws when it is called again.
struct FailsAgain {
  Sim sim;
  Engine engine{EngineOptions{.workers = 1}};
  Var filler = engine.new_var(), x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  TaskHandle handle;
  std::atomic<int> calls{0}, garbage{0}, filled{0};

  FailsAgain() {
    sim.keep_batches_open();
    for (int i = 0; i < 5; ++i)  // four are launched at once; with the fifth a batch begins, which takes five
      engine.push(captured("fills", {write(filler)}), [this](Queue queue) { sim_launch(queue, [this] { ++filled; }); });
    handle = engine.push(captured("fails", {write(x)}), [this](Queue queue) {
      sim_launch(queue, [] {});
      if (++calls == 2)
        throw ValueError("not twice");
    });
    REQUIRE(calls == 1);
  }
  /// A task that must not get to see the value of `from`.
  void push_reader(const Task& task) {
    engine.push(task, [this](Queue queue) {
      if (task_runs_on_gpu(queue)) {
        sim_launch(queue, [this] { ++garbage; });
      } else {
        ++garbage;
      }
    });
  }
  static bool task_runs_on_gpu(const Queue& queue) { return queue.device().is_gpu(); }
  /// What was captured is launched one by one.
  void spoil_batch() { engine.push(captured("spoils", {write(filler)}), spoil); }
  /// The next batch cannot be launched as a graph.
  static void refuse_graphs() { sim::fail_nth("cudaGraphInstantiate", 1, cudaErrorUnknown); }
  /// Waits for `var` throw the failure, however often.
  void check_failed(const Var& var) {
    for (int i = 0; i < 3; ++i) {
      CHECK_THAT(text_of_error([&] { engine.wait(var); }), contains("not twice") && contains("in task \"fails\""));
    }
  }
  void check_rest() {
    CHECK(calls == 2);
    CHECK(garbage == 0);
    CHECK_NOTHROW(engine.wait(filler));
    CHECK(filled == 5);
  }
};

struct Told final : WaitObserver {
  void complete(std::exception_ptr given) noexcept override {
    error = given;
    told = true;
  }
  std::exception_ptr error;
  std::atomic<bool> told{false};
};

}  // namespace

TEST_CASE("A body that throws when it is called again fails its task and what comes after it", "[sim]") {
  FailsAgain late;
  Engine& engine = late.engine;
  late.push_reader(captured("reads in the batch", {read(late.x), out(late.y)}));
  late.push_reader(captured("reads that", {read(late.y), out(late.z)}));
  late.spoil_batch();
  Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  late.push_reader({.name = "reads it later", .device = gpu(0), .access = {read(late.z), write(a)}});
  late.push_reader({.name = "on the CPU", .access = {read(late.x), write(b)}});
  late.push_reader({.name = "on another GPU", .device = gpu(1), .access = {read(late.y), write(c)}});
  for (const Var& var : {late.x, late.y, late.z, a, b, c})
    late.check_failed(var);
  CHECK_THROWS_AS(late.handle.wait(), ValueError);
  CHECK_THROWS_AS(late.handle.wait(), ValueError);
  CHECK(late.x.version() == 0);
  CHECK(late.y.version() == 0);
  CHECK(engine.counters().failed == 1);
  CHECK(engine.counters().skipped == 5);
  CHECK_NOTHROW(engine.wait_all());  // somebody knows
  late.check_rest();
}

TEST_CASE("Nobody asked: wait_all tells of a body that has thrown when it was called again", "[sim]") {
  FailsAgain late;
  FailsAgain::refuse_graphs();
  CHECK_THROWS_AS(late.engine.wait_all(), ValueError);
  CHECK_NOTHROW(late.engine.wait_all());
  late.check_failed(late.x);
  late.check_rest();
}

TEST_CASE("Who waits already when a body throws that is called again learns of it", "[sim]") {
  const std::string way = GENERATE("a Var", "a handle", "all who write it", "without a thread");
  CAPTURE(way);
  FailsAgain late;
  Told told;
  FailsAgain::refuse_graphs();
  if (way == "a Var") {
    CHECK_THROWS_AS(late.engine.wait(late.x), ValueError);
  } else if (way == "a handle") {
    CHECK_THROWS_AS(late.handle.wait(), ValueError);
  } else if (way == "all who write it") {
    CHECK_THROWS_AS(late.engine.wait(write(late.x)), ValueError);
  } else {
    PendingWait(read(late.x), told).start();
    REQUIRE(eventually([&] { return told.told.load(); }));
    CHECK_THROWS_AS(std::rethrow_exception(told.error), ValueError);
  }
  late.check_failed(late.x);
  late.check_rest();
}

TEST_CASE("A task that is ready when a body throws that is called again does not run", "[sim]") {
  const std::string where = GENERATE("CPU", "same GPU", "other GPU", "legacy stream");
  CAPTURE(where);
  FailsAgain late;
  FailsAgain::refuse_graphs();
  Task task{.name = "reads", .access = {read(late.x), write(late.y)}};
  if (where != "CPU")
    task.device = gpu(where == "other GPU" ? 1 : 0);
  task.legacy_stream = where == "legacy stream";
  late.push_reader(task);
  late.check_failed(late.y);
  late.check_failed(late.x);
  CHECK(late.y.version() == 0);
  CHECK(late.engine.counters().failed == 1);
  CHECK(late.engine.counters().skipped == 1);
  late.check_rest();
}

TEST_CASE("What is written over a late failure is sound again; what cleans up after it runs", "[sim]") {
  FailsAgain late;
  Engine& engine = late.engine;
  std::atomic<int> ran{0};
  const auto body = [&ran](Queue queue) {
    if (FailsAgain::task_runs_on_gpu(queue))
      sim_launch(queue, [&ran] { ++ran; });
    else
      ++ran;
  };
  SECTION("in the same batch") {
    engine.push(captured("overwrites", {out(late.x)}), body);
    late.spoil_batch();
    CHECK_NOTHROW(engine.wait(late.x));
    CHECK(late.x.version() == 1);
  }
  SECTION("later, by a GPU") {
    late.spoil_batch();
    engine.push({.name = "overwrites", .device = gpu(0), .access = {out(late.x)}}, body);
    CHECK_NOTHROW(engine.wait(late.x));
    CHECK(late.x.version() == 1);
  }
  SECTION("later, by a GPU body that enqueues nothing") {
    late.spoil_batch();
    engine.push({.name = "overwrites", .device = gpu(0), .access = {out(late.x)}}, [&ran](Queue) { ++ran; });
    CHECK_NOTHROW(engine.wait(late.x));
    CHECK(late.x.version() == 1);
  }
  SECTION("later, by the CPU") {
    late.spoil_batch();
    engine.push({.name = "overwrites", .access = {out(late.x)}}, body);
    CHECK_NOTHROW(engine.wait(late.x));
    CHECK(late.x.version() == 1);
  }
  SECTION("by clear_error") {
    late.spoil_batch();
    engine.clear_error(late.x);
    CHECK_NOTHROW(engine.wait(late.x));
    engine.push({.name = "writes", .access = {write(late.x)}}, body);
    CHECK_NOTHROW(engine.wait(late.x));
  }
  SECTION("a task that runs on failed input, which makes nothing sound") {
    Task cleans = captured("cleans", {write(late.x)});
    cleans.on_failed_input = OnFailedInput::run;
    engine.push(cleans, body);
    late.spoil_batch();
    late.handle = {};
    cleans.device = cpu();
    engine.push(cleans, body);
    CHECK(eventually([&] { return ran == 2; }));
    ran = 1;
  }
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  CHECK(ran == 1);
  late.check_rest();
}

TEST_CASE("A task skipped for a late failure leaves what it would have changed stale, not lost", "[sim]") {
  FailsAgain late;
  Engine& engine = late.engine;
  late.push_reader(captured("updates", {read(late.x), write(late.y)}));
  late.push_reader(captured("makes", {read(late.x), out(late.z)}));
  late.spoil_batch();
  expect_error<ValueError>(
      [&] { engine.wait(late.y); }, [&](const ValueError& error) { CHECK(engine.forgive(error)); });
  CHECK_NOTHROW(engine.wait(late.y));
  late.check_failed(late.x);
  late.check_failed(late.z);
  late.push_reader({.name = "goes on", .access = {write(late.y)}});
  CHECK_NOTHROW(engine.wait(late.y));
  CHECK(late.garbage.exchange(0) == 1);
  late.check_rest();
}

TEST_CASE("A late failure stays with the Vars of its task: what merely follows it is sound", "[sim]") {
  FailsAgain late;
  Engine& engine = late.engine;
  // Enqueues nothing: it is done when the task before it is.
  engine.push(captured("nothing", {read(late.x), write(late.y)}), [](Queue) {});
  late.push_reader(captured("only reads", {read(late.z), read(late.filler)}));
  late.spoil_batch();
  CHECK_NOTHROW(engine.wait(late.y));
  CHECK_NOTHROW(engine.wait(write(late.z)));
  CHECK(late.y.version() == 1);
  CHECK(late.garbage.exchange(0) == 1);
  late.check_failed(late.x);
  late.check_rest();
}
