// A wait in a body runs what it waits for.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Pushes a child and waits for it, `depth` times in one another.
void descend(Engine& engine, int depth, std::atomic<int>& reached) {
  ++reached;
  if (depth > 0)
    engine.push({.name = "child"}, [&engine, depth, &reached] { descend(engine, depth - 1, reached); }).wait();
}

std::uint64_t fibonacci(Engine& engine, int n) {
  if (n < 2)
    return static_cast<std::uint64_t>(n);
  std::uint64_t first = 0, second = 0;
  TaskHandle one = engine.push({.name = "fibonacci"}, [&] { first = fibonacci(engine, n - 1); });
  TaskHandle other = engine.push({.name = "fibonacci"}, [&] { second = fibonacci(engine, n - 2); });
  one.wait();
  other.wait();
  return first + second;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(getpagesize());
}

}  // namespace

TEST_CASE("Bodies that push a child and wait for it go 5000 deep, by handle, whatever the policy") {
  boost::asio::thread_pool served(1);
  for (int workers : {1, 2}) {
    Engine engine({.workers = workers});
    std::atomic<int> reached{0};
    engine.push({.name = "top"}, [&] { descend(engine, 5000, reached); }).wait();
    CHECK(reached == 5001);
    CHECK(engine.counters().run_ahead > 0);
  }
  Engine engine({.executor = run_on(served, 1)});
  std::atomic<int> reached{0};
  engine.push({.name = "top"}, [&] { descend(engine, 1000, reached); }).wait();
  CHECK(reached == 1001);
}

TEST_CASE("8000 bodies that each await a child of their own all end") {
  for (int workers : {1, 4}) {
    Engine engine({.workers = workers});
    std::atomic<int> ended{0};
    for (int i = 0; i < 8000; ++i) {
      engine.push({.name = "parent"}, [&] {
        Var x = engine.new_var();
        engine.push({.name = "child", .access = {out(x)}}, [] {});
        engine.wait(x);
        ++ended;
      });
    }
    engine.wait_all();
    CHECK(ended == 8000);
  }
}

TEST_CASE("Recursion by waits is right, on workers and on an executor of one thread") {
  {
    Engine engine({.workers = 3});
    std::uint64_t value = 0;
    engine.push({.name = "top"}, [&] { value = fibonacci(engine, 16); }).wait();
    CHECK(value == 987);
  }
  boost::asio::thread_pool served(1);
  Engine engine({.executor = run_on(served, 1)});
  std::uint64_t value = 0;
  engine.push({.name = "top"}, [&] { value = fibonacci(engine, 16); }).wait();
  CHECK(value == 987);
  CHECK(detail::EngineAccess::core(engine).cycle_checks() == 0);
}

TEST_CASE("A wait follows what it waits for to a task that is ready, and runs nothing else") {
  Engine engine({.workers = 1});
  Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  std::vector<std::string> order;
  engine
      .push(
          {.name = "waits"},
          [&] {
            engine.push({.name = "unrelated"}, [&] { order.emplace_back("unrelated"); });
            engine.push({.name = "first", .access = {write(a)}}, [&] { order.emplace_back("first"); });
            engine.push({.name = "second", .access = {read(a), write(b)}}, [&] { order.emplace_back("second"); });
            engine.push({.name = "third", .access = {read(b), write(c)}}, [&] { order.emplace_back("third"); });
            engine.wait(c);
            order.emplace_back("waited");
          })
      .wait();
  engine.wait_all();
  CHECK(order == std::vector<std::string>{"first", "second", "third", "waited", "unrelated"});
}

TEST_CASE("What runs in a wait fails by itself, and its thread is the waiting task's again afterwards") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), held = engine.new_var();
  bool threw = false, refused = false;
  engine
      .push(
          {.name = "waits", .access = {write(held)}},
          [&] {
            engine.push({.name = "fails", .access = {out(x)}}, [] { throw ValueError("no"); });
            try {
              engine.wait(x);
            } catch (const ValueError& error) {
              threw = std::string(error.what()).find("fails") != std::string::npos;
            }
            try {
              engine.wait(held);
            } catch (const Deadlock&) {
              refused = true;
            }
          })
      .wait();
  CHECK(threw);
  CHECK(refused);
  CHECK_THROWS_AS(engine.wait(x), ValueError);
}

TEST_CASE("Ranges of a parallel_for wait as the task that has the loop does") {
  for (int workers : {2, 4}) {
    Engine engine({.workers = workers});
    Var held = engine.new_var();
    std::atomic<int> waited{0}, refused{0}, stopped{0};
    std::stop_source stop;
    engine
        .push(
            {.name = "loop", .access = {write(held)}, .stop = stop.get_token()},
            [&] {
              parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  Var x = engine.new_var();
                  engine.push({.name = "other", .access = {out(x)}}, [] {});
                  engine.wait(x);
                  ++waited;
                  try {
                    engine.wait(held);
                  } catch (const Deadlock&) {
                    ++refused;
                  }
                }
              });
              stop.request_stop();
              parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  try {
                    engine.push({.name = "told to stop"}, [] {}).wait();
                  } catch (const Cancelled&) {
                    ++stopped;
                  }
                }
              });
            })
        .wait();
    CHECK(waited == 64);
    CHECK(refused == 64);
    CHECK(stopped == 64);
  }
}

TEST_CASE("A coroutine that was made urgent and resumed leaves what lies behind it in its queue") {
  Engine engine({.workers = 1});
  Var held = engine.new_var(), later = engine.new_var();
  Gate gate, release;
  OpensAtEnd opens(gate), opens_release(release);
  std::atomic<int> background{0};
  bool resumed = false;
  engine.push({.name = "holds the worker"}, [gate] { gate.wait(); });
  engine.push(
      {.name = "writes later", .access = {out(later)}, .priority = Priority::high}, [release] { release.wait(); });
  engine.push({.name = "coroutine", .access = {write(held)}, .priority = Priority::background}, [&]() -> Coroutine {
    co_await engine.async_wait(later);
    resumed = true;
  });
  for (int i = 0; i < 3; ++i)
    engine.push({.name = "background", .priority = Priority::background}, [&] { ++background; });
  engine.push({.name = "urgent", .access = {read(held)}, .priority = Priority::urgent}, [] {});
  gate.open();
  release.open();
  CHECK_NOTHROW(engine.wait_all());
  CHECK(resumed);
  CHECK(background == 3);
}

TEST_CASE("An attached thread runs what it waits for before anything else, and what becomes ready while it waits") {
  Engine engine({.workers = 1});
  Gate gate, busy;
  OpensAtEnd opens(gate);
  engine.push({.name = "holds the worker"}, [gate, busy] {
    busy.open();
    gate.wait();
  });
  REQUIRE(busy.wait());
  const AttachScope attached(engine);
  std::vector<int> order;
  engine.push({.name = "unrelated"}, [&] { order.push_back(1); });
  engine.push({.name = "awaited"}, [&] { order.push_back(2); }).wait();
  CHECK(order == std::vector<int>{2});
  gate.open();
  engine.wait_all();
  CHECK(order == std::vector<int>{2, 1});
}

TEST_CASE("An attached thread that sleeps runs what becomes ready meanwhile, where no worker is free") {
  Engine engine({.workers = 1});
  Var y = engine.new_var(), x = engine.new_var();
  Gate first, rest, begun;
  OpensAtEnd opens(first), opens_rest(rest);
  engine.push({.name = "writes y", .access = {out(y)}}, [=] {
    begun.open();
    first.wait();
  });
  engine.push({.name = "keeps the worker", .access = {read(y)}, .priority = Priority::urgent}, [=] { rest.wait(); });
  engine.push({.name = "late", .access = {read(y), out(x)}}, [=] { rest.open(); });
  REQUIRE(begun.wait());
  const AttachScope attached(engine);
  std::thread opener([&] {
    eventually([&] { return engine.counters().waits > 0; });
    first.open();
  });
  engine.wait(x);
  CHECK(rest.is_open());
  opener.join();
}

TEST_CASE("A body that waits again and again keeps no task that has ended") {
  Engine engine({.workers = 1});
  const auto block = std::make_shared<int>(0);
  std::uint64_t most = 0;
  engine
      .push(
          {.name = "waits"},
          [&] {
            const std::size_t before = resident_bytes();
            for (int i = 0; i < scaled(100'000); ++i)
              engine.push({.name = "child"}, [block] {}).wait();
            most = resident_bytes() - std::min(before, resident_bytes());
          })
      .wait();
  CHECK(block.use_count() == 1);
  CHECK(most < std::uint64_t{8} << 20);  // 100,000 nodes are 25 MiB
}

TEST_CASE("A background coroutine that a wait began, and that was resumed, is left in no queue: an idle engine rests") {
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  for (int i = 0; i < 20; ++i) {
    engine.push({.name = "waits"}, [&] {
      engine.push({.name = "writes", .access = {write(x)}}, [] {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
        while (std::chrono::steady_clock::now() < end) {
        }
      });
      engine
          .push(
              {.name = "coroutine", .priority = Priority::background},
              [&]() -> Coroutine { co_await engine.async_wait(x); })
          .wait();
    });
    engine.wait_all();
  }
  const std::uint64_t parked = engine.counters().parked;
  engine.push({.name = "one more"}, [] {});
  engine.wait_all();
  CHECK(eventually([&] { return engine.counters().parked > parked; }));
}
