#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include <sluice/engine/api.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Two bodies that have both begun, each holding its Var, before either waits for the other's.
struct Pair {
  Engine engine{EngineOptions{.workers = 2}};
  Var a = engine.new_var(), b = engine.new_var();
  std::atomic<int> begun{0};

  void meet() {
    begun.fetch_add(1);
    while (begun.load() < 2)
      std::this_thread::yield();
  }
};

}  // namespace

TEST_CASE("T28: two bodies that wait for each other's Var get a Deadlock that names both") {
  Pair pair;
  std::atomic<int> deadlocks{0};
  std::string text;
  std::mutex text_mutex;
  auto body = [&](const Var& other) {
    pair.meet();
    try {
      pair.engine.wait(other);
    } catch (const Deadlock& error) {
      deadlocks.fetch_add(1);
      const std::lock_guard hold(text_mutex);
      text += error.what();
      throw;
    }
  };
  pair.engine.push({.name = "left", .access = {write(pair.a)}}, [&] { body(pair.b); });
  pair.engine.push({.name = "right", .access = {write(pair.b)}}, [&] { body(pair.a); });
  CHECK_THROWS_AS(pair.engine.wait(pair.a), Deadlock);
  CHECK_THROWS_AS(pair.engine.wait(pair.b), Deadlock);
  CHECK(deadlocks >= 1);
  CHECK_THAT(text, contains("left"));
  CHECK_THAT(text, contains("right"));
}

TEST_CASE("T28: a circle through tasks that only lie queued is found, and names them") {
  Engine engine({.workers = 2});
  Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  Gate pushed;
  OpensAtEnd opens(pushed);
  std::string text;
  engine.push({.name = "outer", .access = {write(a)}}, [&, pushed] {
    pushed.wait();
    text = text_of_error([&] { engine.wait(c); });
  });
  engine.push({.name = "middle", .access = {read(a), write(b)}}, [] {});
  engine.push({.name = "last", .access = {read(b), write(c)}}, [] {});
  pushed.open();
  engine.wait_all();
  for (const char* name : {"outer", "middle", "last"})
    CHECK_THAT(text, contains(name));
  CHECK_NOTHROW(engine.wait(c));
}

TEST_CASE("T28: waits that only take long are left alone") {
  Engine engine({.workers = 2});
  Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  std::atomic<bool> waited{false};
  engine.push({.name = "slow", .access = {write(b)}}, [gate] { gate.wait(); });
  engine.push({.name = "behind", .access = {read(b), write(c)}}, [] {});
  engine.push({.name = "waits", .access = {write(a)}}, [&] {
    engine.wait(c);
    waited = true;
  });
  engine.push({.name = "after", .access = {read(a)}}, [] {});
  CHECK(eventually([&] { return detail::EngineAccess::core(engine).cycle_checks() >= 2; }));
  gate.open();
  CHECK_NOTHROW(engine.wait_all());
  CHECK(waited);
}

TEST_CASE("T28: readers that share a Var do not wait for each other") {
  Engine engine({.workers = 2});
  Var shared = engine.new_var(), done = engine.new_var();
  Gate gate, begun;
  OpensAtEnd opens(gate), opens_begun(begun);
  engine.push({.name = "reads and waits", .access = {read(shared)}}, [&, begun] {
    begun.wait();
    engine.wait(done);
  });
  engine.push({.name = "reads too", .access = {read(shared), write(done)}}, [gate, begun] {
    begun.open();
    gate.wait();
  });
  CHECK(eventually([&] { return detail::EngineAccess::core(engine).cycle_checks() >= 2; }));
  gate.open();
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE(
    "T28: coroutines that await each other's Vars in a circle: one gets a Deadlock that names both, and all end") {
  for (int way : {0, 1, 2}) {  // who waits: for a Var, for everything, a body
    Engine engine({.workers = 2});
    Var a = engine.new_var(), b = engine.new_var();
    Gate pushed;
    OpensAtEnd opens(pushed);
    std::atomic<int> refused{0};
    std::string text;
    const auto awaits = [&](const Var& other) -> Coroutine {
      try {
        co_await engine.async_wait(other);
      } catch (const Deadlock& error) {
        ++refused;
        text = error.what();
      }
    };
    engine.push({.name = "holds both"}, [pushed] { pushed.wait(); });
    engine.push({.name = "one", .access = {write(a)}}, [&, pushed]() -> Coroutine {
      pushed.wait();
      return awaits(b);
    });
    engine.push({.name = "other", .access = {write(b)}}, [&, pushed]() -> Coroutine {
      pushed.wait();
      return awaits(a);
    });
    pushed.open();
    if (way == 0)
      engine.wait(a);
    if (way == 2)
      engine.push({.name = "waits"}, [&] { engine.wait(b); }).wait();
    CHECK_NOTHROW(engine.wait_all());
    CHECK(refused == 1);
    for (const char* name : {"one", "other", "async_wait"})
      CHECK_THAT(text, contains(name));
  }
}

TEST_CASE("T28: a circle among 2000 other suspended coroutines is found, and those are left alone") {
  Engine engine({.workers = 2});
  Var late = engine.new_var(), a = engine.new_var(), b = engine.new_var();
  Gate gate, pushed;
  OpensAtEnd opens(gate), opens_pushed(pushed);
  std::atomic<int> refused{0}, ended{0};
  const auto awaits = [&](const Var& other) -> Coroutine {
    try {
      co_await engine.async_wait(other);
    } catch (const Deadlock&) {
      ++refused;
    }
    ++ended;
  };
  engine.push({.name = "late", .access = {out(late)}}, [gate] { gate.wait(); });
  engine.push({.name = "one", .access = {write(a)}}, [&, pushed]() -> Coroutine {
    pushed.wait();
    return awaits(b);
  });
  engine.push({.name = "other", .access = {write(b)}}, [&] { return awaits(a); });
  for (int i = 0; i < 2000; ++i)
    engine.push({.name = "patient"}, [&] { return awaits(late); });
  pushed.open();
  CHECK_NOTHROW(engine.wait(a));  // which the circle holds
  CHECK(refused == 1);
  gate.open();
  CHECK_NOTHROW(engine.wait_all());
  CHECK(refused == 1);
  CHECK(ended == 2002);
}

// The node of a wait that is over is soon another task's: what was noted of the wait must not be read as that task's.
TEST_CASE("A wait that is over closes no circle, whoever has its node now") {
  Engine engine({.workers = 4});
  Var a = engine.new_var(), b = engine.new_var(), z = engine.new_var();
  Gate holds_b, holds_a, holds_z;
  const OpensAtEnd first(holds_b), second(holds_a), third(holds_z);
  std::string error = "none";
  engine.push({.name = "b", .access = {write(b)}}, [=] { holds_b.wait(); });
  engine.push({.name = "holds z", .access = {write(z)}}, [&] {
    engine.wait(b);
    engine.push({.name = "after a", .access = {read(a)}}, [] {});  // in the node of that wait
    holds_z.wait();
  });
  engine.push({.name = "waits for z", .access = {write(a)}}, [&] {
    holds_a.wait();
    error = text_of_error([&] { engine.wait(z); });
  });
  CHECK(holds_a.reached());
  const std::uint64_t searches = detail::EngineAccess::core(engine).cycle_checks();
  CHECK(eventually(
      [&] { return detail::EngineAccess::core(engine).cycle_checks() > searches; }));  // the wait for b has been noted
  holds_b.open();
  CHECK(holds_z.reached());
  const std::uint64_t before = detail::EngineAccess::core(engine).cycle_checks();
  holds_a.open();
  CHECK(eventually([&] { return detail::EngineAccess::core(engine).cycle_checks() > before + 1 || error != "none"; }));
  holds_z.open();
  engine.wait_all();
  CHECK(error == "");
}
