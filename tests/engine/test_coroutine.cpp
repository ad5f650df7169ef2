// Task bodies that are coroutines: they wait without a thread and hold their accesses meanwhile.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T60: a suspended body occupies no thread and holds its accesses until it ends") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 1, .cpu_policy = policy});
    Var x = engine.new_var(), y = engine.new_var();
    std::vector<std::string> order;
    TaskHandle handle = engine.push({.name = "coroutine", .access = {write(x)}}, [&]() -> Coroutine {
      engine.push({.name = "producer", .access = {out(y)}}, [&] { order.push_back("producer"); });
      engine.push({.name = "after", .access = {read(x)}}, [&] { order.push_back("after"); });
      order.push_back("before");
      co_await y;
      order.push_back("resumed");
    });
    handle.wait();
    engine.wait(write(x));
    CHECK(order == std::vector<std::string>{"before", "producer", "resumed", "after"});
    CHECK(x.version() == 1);
  }
}

TEST_CASE("T60: the three ways to await, in a loop") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  int produced = 0, early = 0;
  const int rounds = scaled(5'000);
  TaskHandle handle = engine.push({.name = "loops", .access = {write(x)}}, [&]() -> Coroutine {
    for (int i = 1; i <= rounds; ++i) {
      engine.push({.name = "producer", .access = {write(y)}}, [&] { ++produced; });
      if (i % 3 == 0)
        co_await read(y);
      else if (i % 3 == 1)
        co_await engine.async_wait(y);
      else
        co_await engine.async_wait(write(y));
      early += produced == i ? 0 : 1;
      if (i % 5 == 0)
        co_await write(y);  // nothing is pending now: it goes on at once
    }
  });
  handle.wait();
  CHECK(produced == rounds);
  CHECK(early == 0);
  CHECK(y.version() == static_cast<std::uint64_t>(rounds));
}

TEST_CASE("T60: exclusive access holds across awaits of many coroutines; each write is counted once") {
  for (int workers : {1, 3}) {
    Engine engine({.workers = workers});
    constexpr int k_vars = 5;
    struct Cell {
      Var var;
      std::atomic<int> writers{0};
      std::uint64_t writes = 0;
    };
    std::array<Cell, k_vars> cells;
    for (Cell& cell : cells)
      cell.var = engine.new_var();
    Var tick = engine.new_var();
    std::atomic<int> overlaps{0}, ended{0};
    const int rounds = scaled(4'000);
    for (int i = 0; i < rounds; ++i) {
      Cell& cell = cells[static_cast<std::size_t>(i * 7 % k_vars)];
      engine.push({.name = "tick", .access = {write(tick)}}, [] {});
      engine.push({.name = "coroutine", .access = {write(cell.var)}}, [&]() -> Coroutine {
        for (int awaits = 0; awaits < 2; ++awaits) {
          overlaps += cell.writers.fetch_add(1) == 0 ? 0 : 1;
          cell.writers.fetch_sub(1);
          ++cell.writes;
          co_await tick;
        }
        ++ended;
      });
    }
    engine.wait_all();
    CHECK(overlaps == 0);
    CHECK(ended == rounds);
    std::uint64_t versions = 0;
    for (Cell& cell : cells) {
      CHECK(cell.writes == 2 * cell.var.version());
      versions += cell.var.version();
    }
    CHECK(versions == static_cast<std::uint64_t>(rounds));
  }
}

TEST_CASE("A coroutine body fails like a plain one, and may catch what it awaits") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var bad = engine.new_var(), x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    engine.push({.name = "origin", .access = {out(bad)}}, [] { throw ValueError("broken input"); });
    engine.push({.name = "passes on", .access = {out(x)}}, [&]() -> Coroutine { co_await bad; });
    bool caught = false;
    engine.push({.name = "catches", .access = {out(y)}}, [&]() -> Coroutine {
      try {
        co_await bad;
      } catch (const ValueError&) {
        caught = true;
      }
    });
    engine.push({.name = "throws an int", .access = {out(z)}}, [&]() -> Coroutine {
      co_await y;
      throw 7;
    });
    CHECK_THAT(text_of_error([&] { engine.wait(x); }), contains("broken input") && contains("origin"));
    CHECK_NOTHROW(engine.wait(y));
    CHECK(caught);
    CHECK_THROWS_AS(engine.wait(z), TaskFailed);
    CHECK(z.version() == 0);
  }
}

TEST_CASE("What a coroutine's lambda captures lives as long as the body, and no longer") {
  Engine engine({.workers = 2});
  auto token = std::make_shared<int>(42);
  std::array<int, 64> large{};  // too large to lie in place
  large[63] = 5;
  Var y = engine.new_var();
  int seen = 0;
  std::weak_ptr<int> watch = token;
  engine.push({.name = "captures"}, [&engine, &seen, y, large, token = std::move(token)](Queue queue) -> Coroutine {
    engine.push({.name = "producer", .access = {out(y)}}, [] {});
    co_await y;
    seen = *token + large[63] + queue.threads();
  });
  engine.wait_all();
  CHECK(seen == 48);
  CHECK(eventually([&] { return watch.expired(); }));
}

TEST_CASE("An engine that ends waits for suspended bodies") {
  std::atomic<int> ended{0};
  const int rounds = scaled(200);
  for (int i = 0; i < rounds; ++i) {
    Engine engine({.workers = 2});
    Var x = engine.new_var(), y = engine.new_var();
    engine.push({.name = "slow", .access = {out(y)}}, [] { std::this_thread::yield(); });
    engine.push({.name = "suspended", .access = {write(x)}}, [&engine, &ended, y]() -> Coroutine {
      co_await y;
      engine.push({.name = "nested", .access = {write(y)}}, [] { std::this_thread::yield(); });
      co_await y;
      ++ended;
    });
  }
  CHECK(ended == rounds);
}

TEST_CASE("T27: a coroutine that awaits what it holds itself is told so") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  int refused = 0;
  engine.push({.name = "holds both", .access = {write(x), read(y)}}, [&]() -> Coroutine {
    co_await y;  // reads share
    engine.push({.name = "child", .access = {write(y)}}, [] {});
    try {
      co_await x;
    } catch (const Deadlock&) {
      ++refused;
    }
    try {
      co_await read(y);  // queued behind the child, which waits for this task
    } catch (const Deadlock&) {
      ++refused;
    }
  });
  CHECK_NOTHROW(engine.wait(write(x)));
  CHECK(refused == 2);
}

TEST_CASE("A resumed body keeps its priority") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  std::vector<int> order;
  engine.push({.name = "urgent", .access = {write(x)}, .priority = Priority::urgent}, [&]() -> Coroutine {
    engine.push({.name = "producer", .access = {out(y)}, .priority = Priority::urgent}, [&] { order.push_back(1); });
    for (int i = 0; i < 30; ++i)
      engine.push({.name = "normal"}, [&] { order.push_back(3); });
    co_await y;
    order.push_back(2);
  });
  engine.wait_all();
  REQUIRE(order.size() == 32);
  CHECK((order[0] == 1 && order[1] == 2 && order[2] == 3));
}

TEST_CASE("A body may await Vars of another engine; an empty Var and misfit tasks are refused with typed errors") {
  Engine engine({.workers = 1}), other({.workers = 1});
  Var theirs = other.new_var(), empty;
  int value = 0, seen = 0, refused = 0;
  other.push({.name = "theirs", .access = {out(theirs)}}, [&] { value = 3; });
  TaskHandle fine = engine.push({.name = "awaits both"}, [&]() -> Coroutine {
    co_await theirs;
    seen = value;
    try {
      co_await empty;
    } catch (const ValueError&) {
      ++refused;
    }
    try {
      co_await engine.async_wait(theirs);
    } catch (const ValueError&) {
      ++refused;
    }
  });
  CHECK_NOTHROW(fine.wait());
  CHECK(seen == 3);
  CHECK(refused == 2);
  TaskHandle team = engine.push({.name = "team", .threads = 2}, []() -> Coroutine { co_return; });
  CHECK_THROWS_AS(team.wait(), UnsupportedError);
}
