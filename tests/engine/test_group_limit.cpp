// How many tasks of a group run at a time, and groups under load.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr const char* k_policies[] = {"pool", "serial", "chaos", "chaos-pool"};

EngineOptions options_of(const std::string& policy, int workers = 2) {
  return {.workers = policy == "serial" || policy == "chaos" ? 0 : workers, .cpu_policy = policy};
}

}  // namespace

TEST_CASE("At most as many members of a group are begun as its limit says") {
  for (const char* policy : {"pool", "chaos-pool"}) {
    for (const int limit : {1, 2}) {
      CAPTURE(policy, limit);
      Engine engine(options_of(policy, limit + 1));
      TaskGroup group(engine, {.limit = limit});
      Peak peak;
      Gate gate;
      OpensAtEnd opens(gate);
      const int tasks = scaled(400);
      for (int i = 0; i < tasks; ++i) {
        group.push({.name = "member"}, [&peak, gate] {
          peak.enter();
          gate.wait();
          peak.leave();
        });
      }
      CHECK(gate.reached(limit));  // as many do run together
      // The one worker that is left would come to another member first.
      engine.push({.name = "stranger", .priority = Priority::background}, [] {}).wait();
      CHECK(gate.inside() == limit);
      gate.open();
      group.wait();
      CHECK(peak.peak() == limit);
    }
  }
  Engine engine({.workers = 1});
  CHECK_THROWS_AS(TaskGroup(engine, {.limit = -1}), ValueError);
}

TEST_CASE("A member that waits gives its place away: a group of one at a time does not hang") {
  for (const char* policy : k_policies) {
    CAPTURE(policy);
    Engine engine(options_of(policy));
    TaskGroup group(engine, {.limit = 1});
    Var x = engine.new_var();
    int order = 0;
    group.push({.name = "parent"}, [&] {
      engine.push({.name = "child", .access = {write(x)}}, [&] { order = 1; }).wait();
      order = order == 1 ? 2 : -1;
    });
    group.push({.name = "coroutine"}, [&]() -> Coroutine {
      Var y = engine.new_var();
      engine.push({.name = "its child", .access = {write(y)}}, [] {});
      co_await y;
    });
    group.wait();
    CHECK(order == 2);
  }
}

TEST_CASE("A range of a member's loop that waits gives the member's place away") {
  Engine engine({.workers = 2});
  TaskGroup group(engine, {.limit = 1});
  std::atomic<int> children{0};
  group.push({.name = "loops"}, [&] {
    parallel_for(8, 1, [&](std::int64_t, std::int64_t) { engine.push({.name = "child"}, [&] { ++children; }).wait(); });
  });
  group.wait();
  CHECK(children == 8);
}

TEST_CASE("What a limit holds back is run, skipped or cancelled like the rest") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  TaskGroup group(engine, {.limit = 1});
  Gate gate;
  OpensAtEnd opens(gate);
  group.push({.name = "first"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  bool ran = false;
  TaskHandle unwanted = group.push({.name = "unwanted"}, [&] { ran = true; });
  TaskHandle fails = group.push({.name = "fails", .access = {write(x)}}, [] { throw IndexError("on purpose"); });
  TaskHandle skipped = group.push({.name = "skipped", .access = {read(x)}}, [&] { ran = true; });
  CHECK(unwanted.cancel());
  CHECK(unwanted.status() == TaskStatus::waiting);
  gate.open();
  CHECK_THROWS_AS(group.wait(), IndexError);
  CHECK_THROWS_AS(unwanted.wait(), Cancelled);
  CHECK_THROWS_AS(skipped.wait(), IndexError);
  CHECK_FALSE(ran);
}

TEST_CASE("Groups under load: threads push to shared groups, members push, wait and fail") {
  for (const char* policy : {"pool", "chaos-pool", "serial"}) {
    CAPTURE(policy);
    Engine engine(options_of(policy, 3));
    std::vector<Var> vars;
    for (int i = 0; i < 4; ++i)
      vars.push_back(engine.new_var());
    TaskGroup free(engine), few(engine, {.limit = 2});
    std::atomic<int> ran{0}, pushed{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < scaled(400); ++i) {
          TaskGroup& group = i % 2 == 0 ? free : few;
          pushed += 2;
          group.push({.name = "outer", .access = {write(vars[static_cast<std::size_t>(i + t) % 4])}}, [&, i] {
            ++ran;
            TaskHandle child = engine.push({.name = "child"}, [&] { ++ran; });
            if (i % 8 == 0)
              child.wait();
          });
          if (i % 50 == 49)
            group.wait();
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    free.wait();
    few.wait();
    CHECK(ran == pushed);
  }
}
