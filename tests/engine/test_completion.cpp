// Tasks that somebody else ends: Queue::complete_later and TaskCompletion.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Where a body leaves its TaskCompletion for the test.
struct Left {
  TaskCompletion completion;
  Gate there;

  auto body() {
    return [this](Queue queue) {
      completion = queue.complete_later();
      there.open();
    };
  }
};

}  // namespace

TEST_CASE("A task ends when its TaskCompletion says so, without a worker, whatever the policy") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy, 1));
    Var x = engine.new_var();
    Left left;
    std::atomic<int> value{0};
    TaskHandle outside = engine.push({.name = "outside", .access = {write(x)}}, left.body());
    TaskHandle after = engine.push({.name = "after", .access = {read(x)}}, [&] { value = 2; });
    if (policy == CpuMode::chaos)
      engine.push({.name = "other"}, [] {}).wait();  // runs all that is ready
    REQUIRE(left.there.wait());
    engine.push({.name = "other"}, [] {}).wait();  // the one worker is free
    CHECK(outside.status() == TaskStatus::running);
    CHECK(after.status() == TaskStatus::waiting);
    CHECK(value == 0);
    std::thread ends([&] { left.completion.complete(); });
    engine.wait(x);
    after.wait();
    ends.join();
    CHECK_FALSE(left.completion);
    CHECK(value == 2);
    CHECK(x.version() == 1);
    CHECK(outside.status() == TaskStatus::finished);
    CHECK_THROWS_AS(left.completion.complete(), ValueError);
    CHECK_THROWS_AS(left.completion.fail(std::make_exception_ptr(1)), ValueError);
    CHECK_THROWS_AS(left.completion.stop_token(), ValueError);
    CHECK_NOTHROW(engine.wait_all());
  }
}

TEST_CASE("The body may have it ended before it returns; the task ends with the later of the two") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  TaskHandle handle = engine.push({.name = "at once", .access = {write(x)}}, [gate](Queue queue) {
    queue.complete_later().complete();
    gate.wait();
  });
  REQUIRE(gate.reached());
  CHECK_FALSE(handle.done());
  gate.open();
  CHECK_NOTHROW(handle.wait());
  CHECK(x.version() == 1);
}

TEST_CASE("A TaskCompletion fails its task with any error, which travels along the Vars") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  Left left, other;
  engine.push({.name = "fetch", .access = {write(x)}}, left.body());
  engine.push({.name = "number", .access = {write(y)}}, other.body());
  bool ran = false;
  TaskHandle after = engine.push({.name = "after", .access = {read(x)}}, [&] { ran = true; });
  REQUIRE(left.there.wait());
  REQUIRE(other.there.wait());
  CHECK_THROWS_AS(left.completion.fail(nullptr), ValueError);
  CHECK(left.completion);
  left.completion.fail(std::make_exception_ptr(FileError("no such page")));
  other.completion.fail(std::make_exception_ptr(5));
  CHECK_THAT(text_of_error([&] { engine.wait(x); }), contains("no such page") && contains("fetch"));
  CHECK_THROWS_AS(engine.wait(x), FileError);
  CHECK_THROWS_AS(after.wait(), FileError);
  CHECK_FALSE(ran);
  CHECK_THROWS_AS(engine.wait(y), TaskFailed);
  CHECK(x.version() == 0);
}

TEST_CASE("A TaskCompletion that is dropped fails its task, and nobody hangs") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  engine.push({.name = "forgets", .access = {write(x)}}, [](Queue queue) { queue.complete_later(); });
  CHECK_THROWS_AS(engine.wait(x), AbandonedCompletion);
  Left left;
  engine.push({.name = "forgets later", .access = {write(y)}}, left.body());
  REQUIRE(left.there.wait());
  left.completion = TaskCompletion();
  CHECK_THAT(text_of_error([&] { engine.wait(y); }), contains("forgets later"));
  CHECK_THROWS_AS(engine.wait(y), AbandonedCompletion);
}

TEST_CASE("What the body throws after it has given its end away counts first, and is not hurried") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  Left left;
  TaskHandle handle = engine.push({.name = "both", .access = {write(x)}}, [&](Queue queue) {
    left.body()(queue);
    throw IndexError("of the body");
  });
  REQUIRE(left.there.wait());
  engine.push({.name = "passes"}, [] {}).wait();
  CHECK_FALSE(handle.done());  // what was begun elsewhere still uses the Vars
  left.completion.fail(std::make_exception_ptr(ValueError("of the other")));
  CHECK_THROWS_AS(handle.wait(), IndexError);
}

TEST_CASE("complete_later is for the body of a CPU task, once") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  std::optional<Queue> kept;
  TaskHandle twice = engine.push({.name = "twice", .access = {write(x)}}, [&](Queue queue) {
    kept = queue;
    TaskCompletion first = queue.complete_later();
    try {
      queue.complete_later();
    } catch (const ValueError&) {
      first.complete();
    }
  });
  CHECK_NOTHROW(twice.wait());
  CHECK_THROWS_AS(Queue(engine, cpu(), 1, nullptr).complete_later(), ValueError);
  CHECK_THROWS_AS(Queue(engine, gpu(0), 1, nullptr).complete_later(), UnsupportedError);
  CHECK_THROWS_AS(
      engine
          .push(
              {.name = "in a loop"},
              [](Queue queue) { parallel_for(2, 1, [&](std::int64_t, std::int64_t) { queue.complete_later(); }); })
          .wait(),
      ValueError);
}

TEST_CASE("A coroutine body may leave its end to others too") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy, 1));
    Var x = engine.new_var(), y = engine.new_var();
    Left left;
    engine.push({.name = "input", .access = {write(y)}}, [] {});
    TaskHandle handle = engine.push({.name = "coroutine", .access = {write(x)}}, [&](Queue queue) -> Coroutine {
      left.completion = queue.complete_later();
      co_await y;
      left.there.open();
    });
    if (policy == CpuMode::chaos)
      engine.push({.name = "other"}, [] {}).wait();
    REQUIRE(left.there.wait());
    engine.push({.name = "other"}, [] {}).wait();
    CHECK_FALSE(handle.done());
    left.completion.complete();
    CHECK_NOTHROW(handle.wait());
    CHECK(x.version() == 1);
  }
}

TEST_CASE("Cancelling a task, its stop token and the engine's stop reach who ends it") {
  enum class How { handle, token, engine };
  for (const How how : {How::handle, How::token, How::engine}) {
    CAPTURE(static_cast<int>(how));
    Engine engine({.workers = 1, .report_failures = false});
    Var x = engine.new_var();
    Left left;
    std::stop_source stop;
    TaskHandle handle = engine.push({.name = "outside", .access = {write(x)}, .stop = stop.get_token()}, left.body());
    REQUIRE(left.there.wait());
    const std::stop_token token = left.completion.stop_token();
    CHECK_FALSE(token.stop_requested());
    // Who is told ends the task on the spot.
    std::stop_callback callback(token, [&] { left.completion.fail(std::make_exception_ptr(Cancelled("given up"))); });
    if (how == How::handle)
      CHECK_FALSE(handle.cancel());
    else if (how == How::token)
      stop.request_stop();
    else
      engine.stop(Stop::cancel);
    CHECK(token.stop_requested());
    CHECK_FALSE(left.completion);
    CHECK_THROWS_AS(handle.wait(), Cancelled);
    CHECK(handle.status() == TaskStatus::cancelled);
  }
}

TEST_CASE("A cancel that came while the body ran is told with the TaskCompletion") {
  Engine engine({.workers = 1});
  Gate gate;
  OpensAtEnd opens(gate);
  bool told = false;
  TaskHandle handle = engine.push({.name = "late"}, [&, gate](Queue queue) {
    gate.wait();
    TaskCompletion completion = queue.complete_later();
    told = completion.stop_token().stop_requested();
    completion.complete();
  });
  REQUIRE(gate.reached());
  CHECK_FALSE(handle.cancel());
  gate.open();
  CHECK_NOTHROW(handle.wait());
  CHECK(told);
}

TEST_CASE("wait_all and stop wait for tasks that others end") {
  Left left;
  bool after_ran = false;
  std::thread ends;
  {
    Engine engine({.workers = 1});
    Var x = engine.new_var();
    engine.push({.name = "outside", .access = {write(x)}}, left.body());
    engine.push({.name = "after", .access = {read(x)}}, [&] { after_ran = true; });
    REQUIRE(left.there.wait());
    ends = std::thread([&] {
      std::this_thread::yield();
      left.completion.complete();
    });
    engine.wait_all();
    CHECK(after_ran);
    ends.join();
    left.there = Gate();
    after_ran = false;
    engine.push({.name = "outside", .access = {write(x)}}, left.body());
    engine.push({.name = "after", .access = {read(x)}}, [&] { after_ran = true; });
    REQUIRE(left.there.wait());
    ends = std::thread([&] { left.completion.complete(); });
  }  // the engine drains
  CHECK(after_ran);
  ends.join();
}

TEST_CASE("A body that waits for what others end is in no deadlock") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  Left left;
  engine.push({.name = "outside", .access = {write(x)}}, left.body());
  TaskHandle waits = engine.push({.name = "waits"}, [&] { engine.wait(x); });
  TaskHandle sleeps = engine.push({.name = "sleeps"}, [&]() -> Coroutine { co_await x; });
  REQUIRE(left.there.wait());
  const std::uint64_t before = detail::EngineAccess::core(engine).cycle_checks();
  CHECK(eventually([&] { return detail::EngineAccess::core(engine).cycle_checks() > before; }));  // and finds none
  left.completion.complete();
  CHECK_NOTHROW(waits.wait());
  CHECK_NOTHROW(sleeps.wait());
}

TEST_CASE("Many tasks are ended by other threads, bodies and each other") {
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial, CpuMode::chaos_pool}) {
    CAPTURE(to_string(policy));
    Engine engine({.workers = policy == CpuMode::serial ? 0 : 3, .cpu_policy = policy});
    const int count = scaled(3000);
    std::vector<Var> vars;
    for (int i = 0; i < 5; ++i)
      vars.push_back(engine.new_var());
    std::vector<std::thread> threads;
    std::atomic<int> ended{0};
    std::mutex mutex;
    std::vector<TaskCompletion> open;
    std::atomic<bool> over{false};
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        while (!over.load()) {
          TaskCompletion mine;
          {
            const std::lock_guard hold(mutex);
            if (!open.empty()) {
              mine = std::move(open.back());
              open.pop_back();
            }
          }
          if (mine) {
            ++ended;
            mine.complete();
          } else {
            std::this_thread::yield();
          }
        }
      });
    }
    std::vector<std::uint64_t> order(5);
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i) % 5, other = static_cast<std::size_t>(i * 7 + 1) % 5;
      const Task task{.name = "outside", .access = {write(vars[at]), read(vars[other])}};
      engine.push(task, [&, at](Queue queue) {
        ++order[at];
        const std::lock_guard hold(mutex);
        open.push_back(queue.complete_later());
      });
    }
    engine.wait_all();
    over = true;
    for (std::thread& thread : threads)
      thread.join();
    CHECK(ended == count);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(vars[i].version() == order[i]);
      sum += order[i];
    }
    CHECK(sum == static_cast<std::uint64_t>(count));
  }
}
