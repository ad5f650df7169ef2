// Coroutine bodies that are cancelled: suspended, running, not begun; by a handle, a stop token, with the engine.
#include <atomic>
#include <memory>
#include <stop_token>
#include <thread>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T60: cancelled while suspended: the await throws Cancelled, the accesses are released once") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Held held(engine);
  REQUIRE(held.gate.reached());
  Gate started;
  TaskHandle handle = engine.push({.name = "sleeper", .access = {write(x)}}, [&]() -> Coroutine {
    started.open();
    co_await held.var;
  });
  REQUIRE(started.wait());
  let_pass(engine);
  REQUIRE(handle.cancel());
  CHECK_THROWS_AS(handle.wait(), Cancelled);  // though what it awaited is held still
  CHECK(held.gate.inside() == 1);
  CHECK_THAT(text_of_error([&] { engine.wait(x); }), contains("sleeper"));
  CHECK_FALSE(handle.cancel());
  CHECK(x.version() == 0);
  engine.push({.name = "overwrite", .access = {out(x)}}, [] {});
  CHECK_NOTHROW(engine.wait(x));
  CHECK(x.version() == 1);
  held.gate.open();
  CHECK_NOTHROW(engine.wait_all());  // who cancels need not be told again
  CHECK_NOTHROW(engine.wait(held.var));
}

TEST_CASE("T60: a body may catch Cancelled, clean up with further awaits, and succeed") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  Held held(engine);
  Gate started;
  bool caught = false, cleaned = false;
  TaskHandle handle = engine.push({.name = "careful", .access = {write(x)}}, [&]() -> Coroutine {
    started.open();
    try {
      co_await held.var;
    } catch (const Cancelled&) {
      caught = true;
    }
    engine.push({.name = "clean up", .access = {out(y)}}, [&] { cleaned = true; });
    co_await y;
  });
  REQUIRE(held.gate.reached());
  REQUIRE(started.wait());
  let_pass(engine);
  REQUIRE(handle.cancel());
  CHECK_NOTHROW(handle.wait());
  CHECK((caught && cleaned));
  CHECK(x.version() == 1);
}

TEST_CASE("T60: cancelled while it runs, the next await throws; cancelled before, the body is not run") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  bool refused = false, ran = false;
  TaskHandle running = engine.push({.name = "running", .access = {write(x)}}, [&, gate]() -> Coroutine {
    gate.wait();
    try {
      co_await y;
    } catch (const Cancelled&) {
      refused = true;
    }
  });
  REQUIRE(gate.reached());
  TaskHandle queued = engine.push({.name = "queued", .access = {out(y)}}, [&]() -> Coroutine {
    ran = true;
    co_return;
  });
  CHECK_FALSE(running.cancel());
  CHECK(queued.cancel());
  gate.open();
  CHECK_NOTHROW(running.wait());
  CHECK(refused);
  CHECK_THROWS_AS(queued.wait(), Cancelled);
  CHECK_FALSE(ran);
}

TEST_CASE("T60: cancelled between its start and its first step, a body learns of it at the next await") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Gate begun, gate, late;
  OpensAtEnd opens(gate), opens_late(late);
  std::atomic<bool> cancelled{false};
  engine.push({.name = "writes x", .access = {out(x)}}, [late] { late.wait(); });
  // A body that is called, and not yet known to be a coroutine: the closure that makes it waits first.
  TaskHandle task = engine.push({.name = "begins"}, [&, begun, gate]() -> Coroutine {
    begun.open();
    gate.wait();
    return [](Engine& on, const Var& var, std::atomic<bool>& told) -> Coroutine {
      try {
        co_await on.async_wait(var);
      } catch (const Cancelled&) {
        told = true;
      }
    }(engine, x, cancelled);
  });
  REQUIRE(begun.wait());
  CHECK_FALSE(task.cancel());
  gate.open();
  CHECK_NOTHROW(task.wait());
  CHECK(cancelled);
}

TEST_CASE("T60: cancels race with the end of the await: each body ends once, whatever it captured is freed") {
  Engine engine({.workers = 2});
  auto held = std::make_shared<int>(0);
  std::atomic<int> ended{0}, cancelled{0};
  const int rounds = scaled(5'000);
  Var x = engine.new_var();
  int accepted = 0;
  for (int i = 0; i < rounds; ++i) {
    Var y = engine.new_var();
    engine.push({.name = "producer", .access = {out(y)}}, [] {});
    TaskHandle handle = engine.push({.name = "race", .access = {write(x)}}, [&, held, y]() -> Coroutine {
      bool over = false;
      for (int awaits = 0; awaits < 3 && !over; ++awaits) {
        try {
          co_await y;
        } catch (const Cancelled&) {
          over = true;
          ++cancelled;
        }
      }
      ended += *held == 0 ? 1 : 0;
    });
    if (i % 4 == 0)
      let_pass(engine);
    const bool now = handle.cancel();
    accepted += now ? 1 : 0;
  }
  CHECK_NOTHROW(engine.wait_all());
  engine.stop();
  const auto counters = engine.counters();
  CHECK(counters.pushed == counters.retired);
  // A body either was never started, or it ended; an accepted cancel was seen by the one or the other.
  CHECK(static_cast<std::uint64_t>(rounds) == ended + counters.skipped);
  CHECK(accepted <= static_cast<int>(counters.skipped) + cancelled);
  CHECK(held.use_count() == 1);
}

namespace {

bool refuses_pushes(Engine& engine) {
  try {
    engine.push({.name = "probe"}, [] {});
  } catch (const EngineStopped&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("T60: a stop token and an engine that is cancelled reach suspended bodies") {
  for (bool whole_engine : {false, true}) {
    Engine engine({.workers = 2});
    Var x = engine.new_var(), y = engine.new_var();
    Held held(engine);
    REQUIRE(held.gate.reached());
    std::stop_source scope;
    Gate started;
    int cancelled = 0, cleaned = 0;
    TaskHandle handle =
        engine.push({.name = "scoped", .access = {write(x)}, .stop = scope.get_token()}, [&](Queue queue) -> Coroutine {
          started.open();
          for (int i = 0; i < 2; ++i) {
            try {
              co_await (i == 0 ? held.var : y);
            } catch (const Cancelled&) {
              ++cancelled;
              cleaned += queue.stop_requested() ? 1 : 0;
            }
          }
          co_await y;  // it was told once
          ++cleaned;
        });
    REQUIRE(started.wait());
    let_pass(engine);
    if (whole_engine) {
      std::thread opener([&] {
        eventually([&] { return refuses_pushes(engine); });  // then it is being cancelled
        held.gate.open();
      });
      engine.stop(Stop::cancel);
      opener.join();
    } else {
      scope.request_stop();
      CHECK_NOTHROW(handle.wait());
      CHECK(held.gate.inside() == 1);
    }
    CHECK_NOTHROW(handle.wait());
    CHECK(cancelled == 1);
    CHECK(cleaned == 2);
    CHECK(x.version() == 1);
  }
}
