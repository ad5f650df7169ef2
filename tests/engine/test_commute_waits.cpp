// Commuting accesses of several Vars, the life of Vars and engines under them, and waits in bodies.
#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

// -- Several Vars --

TEST_CASE("Commute: tasks that commute on several Vars in any order of naming never wait in a circle") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    const bool one = policy == CpuMode::serial || policy == CpuMode::chaos;
    Engine engine({.workers = one ? 1 : 4, .cpu_policy = policy});
    constexpr std::size_t k_vars = 4;
    std::vector<Var> vars(k_vars);
    std::vector<int> value(k_vars, 0), wanted(k_vars, 0);
    for (Var& var : vars)
      var = engine.new_var();
    for (std::size_t i = 0; i < static_cast<std::size_t>(scaled(20'000)); ++i) {
      const std::size_t a = i % k_vars, b = (a + 1 + i / 5 % (k_vars - 1)) % k_vars;
      AccessList list{commute(vars[a])};
      const bool both = i % 3 != 0;
      if (both)
        list.push_back(commute(vars[b]));
      if (i % 101 == 0)  // ends the runs of one Var
        engine.push({.name = "read", .access = {read(vars[b])}}, [] {});
      ++wanted[a];
      wanted[b] += both ? 1 : 0;
      engine.push({.name = "add", .access = list}, [&value, a, b, both] {
        ++value[a];
        if (both)
          ++value[b];
      });
    }
    engine.wait_all();
    CHECK(value == wanted);
    for (std::size_t v = 0; v < k_vars; ++v)
      CHECK(vars[v].version() == static_cast<std::uint64_t>(wanted[v]));
  }
}

TEST_CASE("Commute: a task that waits for its turn on one Var holds no other") {
  Engine engine({.workers = 3});
  const Var u = engine.new_var(), v = engine.new_var();
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "has v", .access = {commute(v)}}, [gate] { gate.wait(); });
  CHECK(gate.reached());
  const TaskHandle both = engine.push({.name = "both", .access = {commute(u), commute(v)}}, [] {});
  engine.push({.name = "u alone", .access = {commute(u)}}, [] {}).wait();
  CHECK_FALSE(both.done());
  gate.open();
  engine.wait_all();
  CHECK(u.version() == 2);
  CHECK(v.version() == 2);
}

TEST_CASE("Commute: a task that needs two Vars comes in though each is free only while the other is taken") {
  Engine engine({.workers = 4});
  const Var var[] = {engine.new_var(), engine.new_var()};
  constexpr int k_rounds = 60;
  std::vector<Gate> gates(2 * k_rounds + 2);
  std::vector<TaskHandle> tasks;
  std::atomic<bool> ran{false};
  const auto begin = [&](std::size_t i) {
    tasks.push_back(
        engine.push({.name = "one", .access = {commute(var[i % 2])}}, [gate = gates[i], &ran] { ran || gate.wait(); }));
  };
  begin(0);
  begin(1);
  CHECK(gates[0].reached());
  CHECK(gates[1].reached());
  const TaskHandle both =
      engine.push({.name = "both", .access = {commute(var[0]), commute(var[1])}}, [&] { ran = true; });
  std::size_t i = 0;
  for (; i < 2 * k_rounds && !ran; ++i) {
    begin(i + 2);  // it follows on the Var that comes free, behind the task that needs both
    gates[i].open();
    CHECK(
        eventually([&] { return ran || gates[i + 2].inside() > 0 || gates[i + 1].inside() == 0 || tasks[i].done(); }));
    // Either the next one has the Var now, or it is kept for the task that needs both.
    CHECK(eventually([&] { return tasks[i].done(); }));
    for (int looks = 0; looks < 200 && !ran && gates[i + 2].inside() == 0; ++looks)
      std::this_thread::yield();
  }
  CHECK(ran);
  CHECK(i < 2 * k_rounds);
  for (const Gate& gate : gates)
    gate.open();
  engine.wait_all();
}

// -- Life --

TEST_CASE("Commute: a Var whose last handle goes while members are queued retires once, after them") {
  struct Hook final : RetireHook {
    std::atomic<int> retired{0};
    void on_retire(const PositionSet&) noexcept override { ++retired; }
  };
  for (const CpuMode policy : k_threaded) {
    Hook hook;
    std::atomic<int> ran{0};
    Engine engine({.workers = 2, .cpu_policy = policy});
    Held late(engine);
    {
      const Var x = engine.new_var({.on_retire = &hook}), y = engine.new_var();
      for (int i = 0; i < 5; ++i)
        engine.push({.name = "late", .access = {read(late.var), commute(x), commute(y)}}, [&] { ++ran; });
      engine.push({.name = "early", .access = {commute(x)}}, [&] { ++ran; }).wait();
    }
    CHECK(hook.retired == 0);
    late.gate.open();
    engine.wait_all();
    CHECK(ran == 6);
    CHECK(hook.retired == 1);
  }
}

TEST_CASE("Commute: an engine that ends runs the members that are queued; one that is cancelled skips them") {
  for (const Stop how : {Stop::drain, Stop::cancel}) {
    std::atomic<int> ran{0};
    Engine engine({.workers = 2, .report_failures = false});
    const Gate gate;
    const OpensAtEnd opens(gate);
    const Var late = engine.new_var(), x = engine.new_var();
    engine.push({.name = "holds", .access = {out(late)}}, [gate, how](Queue queue) {
      gate.wait();
      if (how == Stop::cancel && !eventually([&] { return queue.stop_requested(); }))
        throw ValueError("was never told");
    });
    REQUIRE(gate.reached());
    for (int i = 0; i < 20; ++i)
      engine.push({.name = "member", .access = {read(late), commute(x)}}, [&] { ++ran; });
    auto stops = std::async(std::launch::async, [&] { engine.stop(how); });
    gate.open();
    stops.get();
    CHECK(ran == (how == Stop::cancel ? 0 : 20));
    CHECK(engine.counters().skipped == (how == Stop::cancel ? 20U : 0U));
  }
}

TEST_CASE("Commute: coroutines keep their turn while they are suspended, completions until they are told") {
  Engine engine({.workers = 2});
  Held late(engine);
  REQUIRE(late.gate.reached());  // the other worker takes what follows in order
  const Var x = engine.new_var();
  Order order;
  std::atomic<int> seen{0};
  engine.push({.name = "coroutine", .access = {commute(x)}}, [&order, &seen, var = late.var]() -> Coroutine {
    order.push_back(1);
    ++seen;
    co_await read(var);
    order.push_back(2);
  });
  TaskCompletion completion;
  engine.push({.name = "left to others", .access = {commute(x)}}, [&](Queue queue) {
    order.push_back(3);
    completion = queue.complete_later();
    ++seen;  // who sees it may end the task
  });
  const TaskHandle last = engine.push({.name = "last", .access = {commute(x)}}, says(order, 4));
  let_pass(engine);
  CHECK(seen == 1);
  late.gate.open();
  CHECK(eventually([&] { return seen == 2; }));
  let_pass(engine);
  CHECK_FALSE(last.done());
  completion.complete();
  engine.wait(x);
  CHECK(order == Order{1, 2, 3, 4});
}

TEST_CASE("Commute: members of a group with one place, and a group that waits for them") {
  Engine engine({.workers = 3});
  TaskGroup group(engine, TaskGroupOptions{.limit = 1});
  const Var x = engine.new_var(), y = engine.new_var();
  int sum = 0;
  for (int i = 0; i < 200; ++i)
    group.push(
        {.name = "member", .access = {commute(i % 2 == 0 ? x : y), commute(i % 3 == 0 ? y : x)}}, [&] { ++sum; });
  group.wait();
  CHECK(sum == 200);
}

// -- Waits in bodies --

TEST_CASE("Commute: a member that waits for its own Var, or for another member, gets a Deadlock") {
  Engine engine({.workers = 3});
  const Var x = engine.new_var(), y = engine.new_var();
  const Gate pushed;
  const OpensAtEnd opens(pushed);
  TaskHandle other;
  std::string own, member, through;
  engine.push({.name = "waits", .access = {commute(x)}}, [&, pushed] {
    pushed.wait();
    own = text_of_error([&] { engine.wait(read(x)); });
    member = text_of_error([&] { other.wait(); });
    through = text_of_error([&] { engine.wait(y); });
  });
  other = engine.push({.name = "other member", .access = {commute(x), write(y)}}, [] {});
  pushed.open();
  engine.wait_all();
  CHECK_THAT(own, contains("holds itself"));
  CHECK_THAT(member, contains("which waits for it"));
  CHECK_THAT(through, contains("other member"));
}

TEST_CASE("Commute: a circle through a run that is not granted yet, and waits that are in none") {
  Engine engine({.workers = 4});
  const Var a = engine.new_var(), x = engine.new_var(), b = engine.new_var();
  const Gate pushed;
  const OpensAtEnd opens(pushed);
  std::string text;
  engine.push({.name = "outer", .access = {write(a)}}, [&, pushed] {
    pushed.wait();
    text = text_of_error([&] { engine.wait(b); });
  });
  engine.push({.name = "first", .access = {read(a), write(x)}}, [] {});
  engine.push({.name = "member", .access = {commute(x), write(b)}}, [] {});
  pushed.open();
  engine.wait_all();
  for (const char* name : {"outer", "first", "member"})
    CHECK_THAT(text, contains(name));

  // Another member of the run is waited for by one that has not its turn: no circle, if slow.
  Held slow(engine);
  REQUIRE(slow.gate.reached());  // or the wait would run that body
  const Var y = engine.new_var();
  engine.push({.name = "late member", .access = {read(slow.var), commute(x), write(y)}}, [] {});
  TaskHandle waits = engine.push({.name = "waits beside", .access = {read(b)}}, [&] { engine.wait(y); });
  const std::uint64_t looked = detail::EngineAccess::core(engine).cycle_checks();
  CHECK(eventually([&] { return detail::EngineAccess::core(engine).cycle_checks() > looked; }));
  slow.gate.open();
  CHECK_NOTHROW(waits.wait());
}

TEST_CASE("Commute: a body that waits for a Var runs the members itself, on its only thread") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 1, .cpu_policy = policy});
    const Var x = engine.new_var(), y = engine.new_var();
    int sum = 0;
    engine.push({.name = "parent"}, [&] {
      for (int i = 0; i < 100; ++i) {
        engine.push({.name = "need", .access = {write(y)}}, [] {});
        engine.push({.name = "add", .access = {commute(x), read(y)}}, [&] { ++sum; });
      }
      engine.wait(x);
      CHECK(sum == 100);
    });
    engine.wait_all();
    CHECK(sum == 100);
    CHECK(engine.workers() == 1);
  }
}
