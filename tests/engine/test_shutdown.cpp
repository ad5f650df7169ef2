// Stopping under load, and long runs.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// What a scope writes to standard error.
std::string standard_error_of(const std::function<void()>& scope) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  const int before = dup(STDERR_FILENO);
  std::fflush(stderr);
  dup2(fileno(file), STDERR_FILENO);
  scope();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  std::string text(static_cast<std::size_t>(lseek(fileno(file), 0, SEEK_END)), '\0');
  const ssize_t size = pread(fileno(file), text.data(), text.size(), 0);
  std::fclose(file);
  CHECK(size == static_cast<ssize_t>(text.size()));
  return text;
}

bool refuses(Engine& engine) {
  try {
    engine.push({.name = "too late"}, [] {});
  } catch (const EngineStopped&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("T31: stop under load from 8 pushers: what was accepted runs, what was refused throws, nothing is lost") {
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial}) {
    for (int round = 0; round < scaled(40); ++round) {
      Engine engine({.workers = 2, .cpu_policy = policy});
      std::atomic<int> accepted{0}, refused{0}, runs{0};
      std::vector<std::thread> pushers;
      for (int t = 0; t < 8; ++t) {
        pushers.emplace_back([&, t] {
          Var own = engine.new_var();
          try {
            for (;;) {
              engine.push({.name = "work", .access = {t % 2 == 0 ? write(own) : read(own)}}, [&] { ++runs; });
              ++accepted;
            }
          } catch (const EngineStopped&) {
            ++refused;
          }
        });
      }
      eventually([&] { return accepted > 200; });
      engine.stop();
      const int runs_at_stop = runs;
      for (std::thread& pusher : pushers)
        pusher.join();
      CHECK(refused == 8);
      CHECK(runs == accepted);
      CHECK(runs_at_stop <= accepted);
    }
  }
}

TEST_CASE("The destructor drains: everything pushed has run, nested pushes included") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> runs{0};
      {
        Engine engine({.workers = 2, .cpu_policy = policy});
        Var x = engine.new_var();
        for (int i = 0; i < 50; ++i) {
          engine.push({.name = "outer", .access = {read(x)}}, [&engine, &runs, x] {
            ++runs;
            engine.push({.name = "inner", .access = {write(x)}}, [&engine, &runs, x] {
              ++runs;
              engine.push({.name = "innermost", .access = {write(x)}}, [&runs] { ++runs; });
            });
          });
        }
      }
      CHECK(runs == 150);
    }
  }
}

TEST_CASE("stop drains a long chain of nested pushes that was under way") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  std::atomic<int> runs{0};
  std::function<void()> next = [&] {
    if (++runs < 500)
      engine.push({.name = "next", .access = {write(runs % 2 == 0 ? x : y), read(runs % 2 == 0 ? y : x)}}, next);
  };
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "first", .access = {write(x)}}, [&, gate] {
    gate.wait();
    next();
  });
  std::thread opener([&] {
    gate.reached();
    gate.open();
  });
  engine.stop();
  CHECK(runs == 500);
  opener.join();
}

TEST_CASE("stop runs a long chain of slow tasks, each pushed by the one before, to its end") {
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial}) {
    std::atomic<int> runs{0};
    Engine engine({.workers = 2, .cpu_policy = policy});
    std::function<void()> next = [&] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
      while (std::chrono::steady_clock::now() < end) {
      }
      if (++runs < 20)
        engine.push({.name = "next"}, next);
    };
    engine.push({.name = "first"}, next);
    engine.stop();
    CHECK(runs == 20);
  }
}

TEST_CASE("A second stop returns when the first has: no task runs after it") {
  Engine engine({.workers = 2});
  Gate gate, second_comes;
  OpensAtEnd opens(gate);
  std::atomic<bool> ran{false}, early{false};
  engine.push({.name = "slow"}, [&ran, gate] {
    gate.wait();
    ran = true;
  });
  std::thread first([&] { engine.stop(); });
  std::thread second([&] {
    eventually([&] { return refuses(engine); });
    second_comes.open();
    engine.stop();
    early = !ran;
  });
  second_comes.wait();
  for (int looks = 0; looks < 1000 && !early; ++looks)  // one that does not wait is seen to return
    std::this_thread::yield();
  gate.open();
  first.join();
  second.join();
  CHECK_FALSE(early);
  CHECK_NOTHROW(engine.stop());
}

TEST_CASE("Of 40,000 failures that nobody asks about the first 4096 and the latest are kept, to be told of") {
  Engine engine({.workers = 1});
  constexpr int k_failures = 40'000;
  for (int i = 0; i < k_failures; ++i)
    engine.push({.name = "fails"}, [] { throw ValueError("no"); });
  int told = 0;
  for (bool more = true; more;) {
    more = false;
    try {
      engine.wait_all();
    } catch (const ValueError&) {
      more = ++told < k_failures;
    }
  }
  CHECK(engine.counters().failed == k_failures);
  CHECK(told == 4097);
}

TEST_CASE("An engine that ends tells of failures that nobody asked about: how many, and the first") {
  const auto said = [](const std::function<void(Engine&, const Var&)>& use, bool report = true) {
    return standard_error_of([&] {
      Engine engine({.workers = 1, .report_failures = report});
      const Var x = engine.new_var();
      engine.push({.name = "first", .access = {write(x)}}, [] { throw ValueError("unheard"); });
      engine.push({.name = "second"}, [] { throw 1; });
      use(engine, x);
    });
  };
  const std::string text = said([](Engine&, const Var&) {});
  CHECK_THAT(text, contains("2 tasks failed and no wait has told of it; the first:\nunheard"));
  CHECK_THAT(text, contains("in task \"first\" pushed at"));
  CHECK(said([](Engine&, const Var&) {}, false).empty());
  const std::string other = said([](Engine& engine, const Var& x) { CHECK_THROWS_AS(engine.wait(x), ValueError); });
  CHECK_THAT(other, contains("1 task failed"));
  CHECK_THAT(other, contains("second"));
  const std::string none = said([](Engine& engine, const Var& x) {
    CHECK_THROWS_AS(engine.wait(x), ValueError);
    CHECK_THROWS_AS(engine.wait_all(), TaskFailed);
  });
  CHECK(none.empty());
  const std::string cancelled = standard_error_of([] {
    Engine engine({.workers = 1});
    engine.push({.name = "gives up"}, [] { throw Cancelled("by itself"); });
  });
  CHECK(cancelled.empty());
}

TEST_CASE("A million tasks run, and what their bodies held is freed") {
  Engine engine({.workers = 2});
  auto held = std::make_shared<int>(0);
  std::atomic<int> runs{0};
  const int tasks = scaled(1'000'000);
  std::vector<Var> vars;
  for (int i = 0; i < 16; ++i)
    vars.push_back(engine.new_var());
  for (int i = 0; i < tasks; ++i) {
    engine.push({.name = "light", .access = {read(vars[i % 16]), write(vars[(i * 7 + 3) % 16])}}, [held, &runs] {
      runs.fetch_add(1, std::memory_order_relaxed);
    });
  }
  engine.wait_all();
  CHECK(runs == tasks);
  CHECK(engine.counters().pushed == static_cast<std::uint64_t>(tasks));
  CHECK(engine.counters().retired == static_cast<std::uint64_t>(tasks));
  CHECK(engine.counters().skipped == 0);
  CHECK(engine.counters().failed == 0);
  CHECK(held.use_count() == 1);
}

TEST_CASE("A million tasks queue up behind a closed gate, and run when it opens") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  const int tasks = scaled(1'000'000);
  int runs = 0;
  engine.push({.name = "hold", .access = {write(x)}}, [gate] { gate.wait(); });
  for (int i = 0; i < tasks; ++i)
    engine.push({.name = "queued", .access = {write(x)}}, [&runs] { ++runs; });
  CHECK(x.version() == 0);
  gate.open();
  engine.wait(x);
  CHECK(runs == tasks);
  CHECK(x.version() == static_cast<std::uint64_t>(tasks) + 1);
}

TEST_CASE("T47: an idle engine burns next to no processor time") {
  Engine engine({.workers = 4});
  Var x = engine.new_var();
  for (int i = 0; i < 1000; ++i)
    engine.push({.name = "burst", .access = {write(x)}}, [] {});
  engine.wait_all();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(processor_seconds() - before < 0.1);  // one spinning worker would burn 0.5 s
}
