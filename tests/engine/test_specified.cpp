// Cases of the engine's specification in their full strength, which the tests beside them have in a weaker form.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <set>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/api.h>
#include <sluice/engine/asio.h>

#include "tests/engine/dag.h"
#include "tests/engine/expect.h"
#include "tests/support/child.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct ChaosRun {
  History history;
  std::vector<int> order = {};  // in which the bodies ran
};

ChaosRun run_chaos(const Program& program, std::uint64_t seed) {
  Engine engine({.cpu_policy = "chaos", .chaos_seed = seed});
  ChaosRun run{.history = History(program)};
  std::vector<Var> vars(program.cells);
  for (Var& var : vars)
    var = engine.new_var();
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    engine.push({.name = "step", .access = access_of(program.steps[i], vars)}, [&, i] {
      run_step(program.steps[i], i, run.history.cells.data(), run.history.seen[i]);
      run.order.push_back(static_cast<int>(i));
    });
  }
  engine.wait_all();
  return run;
}

/// Each seed has a program of its own, and the same order of its bodies when it runs again.
void check_seeds(std::uint64_t first, int seeds) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(seeds); ++seed) {
    CAPTURE(seed);
    const std::uint32_t cells[] = {2, 6, 20, 80};
    const Program program = random_program(seed, 40 + seed % 200, cells[seed % 4], 1);
    const ChaosRun run = run_chaos(program, seed);
    REQUIRE(differs_from_serial(program, run.history) == "");
    REQUIRE(run_chaos(program, seed).order == run.order);
    orders.insert(run.order);
  }
  CHECK(orders.size() == static_cast<std::size_t>(seeds));
}

}  // namespace

TEST_CASE("T10: 300 seeds, each with a program of its own, give what a serial loop gives, and the same order again") {
  check_seeds(1, scaled(300));
}

TEST_CASE("T10: a thousand seeds", "[.long]") {
  check_seeds(100'000, 1000);
}

// While nothing else becomes ready, no task of a lower class begins before the last one of a higher class has begun,
// but for what the threads began at the same moment, and for every 64th pick of each.
TEST_CASE("T15: sixteen workers take what is ready class by class, but for every 64th pick") {
  constexpr int k_workers = 16, k_each = 800;
  Engine engine({.workers = k_workers});
  std::vector<Gate> gates(k_workers);
  for (const Gate& gate : gates)
    engine.push({.name = "hold"}, [gate] { gate.wait(); });
  for (const Gate& gate : gates)
    REQUIRE(gate.reached());
  std::array<std::atomic<int>, 3> begun{};
  std::atomic<int> early{0};
  const Priority classes[] = {Priority::background, Priority::normal, Priority::urgent, Priority::high};
  const auto band = [](Priority priority) {
    return priority == Priority::urgent ? 0u : priority == Priority::background ? 2u : 1u;
  };
  const std::array<int, 3> all = {k_each, 2 * k_each, k_each};
  for (int i = 0; i < 4 * k_each; ++i) {
    const Priority priority = classes[(i + i / 4) % 4];
    engine.push({.name = "work", .priority = priority}, [&, own = band(priority)] {
      for (std::size_t higher = 0; higher < own; ++higher)
        early += begun[higher] < all[higher] - k_workers ? 1 : 0;
      ++begun[own];
    });
  }
  for (const Gate& gate : gates)
    gate.open();
  engine.wait_all();
  CHECK(begun[0] + begun[1] + begun[2] == 4 * k_each);
  // An aged pick may count against both higher bands, and a ring gives away what lies in it, in bunches of 32.
  CHECK(early <= 2 * (4 * k_each / 64) + 32 * k_workers);
}

namespace {

/// Pushes a task when it is destroyed, as a guard in a body's captures may.
struct PushesAtEnd {
  Engine* engine;
  std::atomic<int>* ran;
  PushesAtEnd(Engine& engine, std::atomic<int>& ran) : engine(&engine), ran(&ran) {}
  ~PushesAtEnd() {
    engine->push({.name = "from a destructor"}, [ran = ran] { ++*ran; });
  }
};

/// Throws when it is copied into a task.
struct ThrowsInCopy {
  ThrowsInCopy() = default;
  ThrowsInCopy(const ThrowsInCopy&) { throw 5; }
  void operator()() const {}
};

}  // namespace

TEST_CASE("T19: what a closure owns may push while it is destroyed, also behind a body that throws") {
  for (const char* policy : {"pool", "serial", "chaos"}) {
    CAPTURE(policy);
    std::atomic<int> ran{0};
    Engine engine({.workers = 2, .cpu_policy = policy});
    const Var x = engine.new_var();
    for (int i = 0; i < 50; ++i) {
      auto guard = std::make_shared<PushesAtEnd>(engine, ran);
      engine.push({.name = "throws", .access = {out(x)}}, [guard = std::move(guard), i] {
        if (i % 2 == 0)
          throw i;
      });
    }
    CHECK_NOTHROW(engine.wait(x));
    while (text_of_error([&] { engine.wait_all(); }) != "") {
    }
    CHECK(eventually([&] { return ran == 50; }));
  }
}

TEST_CASE("T19: a closure that cannot be copied into its task throws at the push, which then has not taken place") {
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  const ThrowsInCopy body;
  CHECK_THROWS_AS(engine.push({.name = "copied", .access = {write(x)}}, body), int);
  engine.wait_all();
  CHECK(engine.counters().pushed == 0);
  CHECK(x.version() == 0);
}

// The order of pushes across threads is that of their numbers: the record says which came first.
TEST_CASE("T21: wait_all tells of every failure once, the earliest push first, whichever thread pushed it and ran it") {
  constexpr int k_threads = 4, k_each = 50;
  Engine engine({.workers = 4});
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&engine] {
      for (int i = 0; i < k_each; ++i)
        engine.push({.name = "fails"}, [i] { throw ValueError(message("number ", i)); });
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  // All have ended: the order in which they did is not the order of the pushes.
  REQUIRE(eventually([&] { return engine.counters().retired == k_threads * k_each; }));
  std::vector<std::uint64_t> numbers;
  for (bool threw = true; threw;) {
    threw = false;
    try {
      engine.wait_all();
    } catch (const ValueError& error) {
      threw = true;
      numbers.push_back(error.record()->push_number);
    }
  }
  CHECK(numbers.size() == k_threads * k_each);
  CHECK(std::is_sorted(numbers.begin(), numbers.end()));
  CHECK(std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end());
}

TEST_CASE("T28: under an executor, too, two bodies that wait for each other's Var get a Deadlock that names both") {
  for (int round = 0; round < 5; ++round) {
    boost::asio::thread_pool pool(2);
    Engine engine({.executor = run_on(pool, 2)});
    const Var a = engine.new_var(), b = engine.new_var();
    std::atomic<int> deadlocks{0}, inside{0};
    std::string text;
    const auto crossed = [&](const Var& own, const Var& other, const TaskName& name) {
      engine.push({.name = name, .access = {write(own)}}, [&] {
        ++inside;
        eventually([&] { return inside == 2; });
        try {
          engine.wait(other);
        } catch (const Deadlock& error) {
          if (++deadlocks == 1)
            text = error.what();
          throw;
        }
      });
    };
    crossed(a, b, "first of two");
    crossed(b, a, "second of two");
    CHECK_THROWS_AS(engine.wait(a), Deadlock);
    CHECK_THROWS_AS(engine.wait(b), Deadlock);
    CHECK(deadlocks == 2);  // the other one's wait then ends with that failure
    CHECK(text.find("first of two") != std::string::npos);
    CHECK(text.find("second of two") != std::string::npos);
  }
}

TEST_CASE("T29: one body more than there are workers, all blocked on one later task: they go on when it has run") {
  for (const int workers : {2, 3}) {
    CAPTURE(workers);
    Engine engine({.workers = workers});
    const Var begin = engine.new_var(), later = engine.new_var();
    Gate gate;
    OpensAtEnd opens(gate);
    engine.push({.name = "hold", .access = {write(begin)}}, [gate] { gate.wait(); });
    REQUIRE(gate.reached());
    std::atomic<int> inside{0}, seen{0};
    bool ran = false;
    std::vector<TaskHandle> handles;
    for (int i = 0; i < workers + 1; ++i) {
      handles.push_back(engine.push({.name = "blocks"}, [&] {
        ++inside;
        engine.wait(begin);
        engine.wait(later);
        seen += ran ? 1 : 0;
      }));
    }
    engine.push({.name = "later", .access = {read(begin), write(later)}}, [&] { ran = true; });
    CHECK(eventually([&] { return inside == workers + 1; }));  // though the gate is still closed
    gate.open();
    for (TaskHandle& handle : handles)
      handle.wait();
    CHECK(seen == workers + 1);
  }
}

TEST_CASE("T30: cancelled twice, a task is cancelled once; what its body held is freed, whatever state it was in") {
  auto held = std::make_shared<int>(0);
  {
    Engine engine({.workers = 1});
    const Var x = engine.new_var();
    Gate gate;
    OpensAtEnd opens(gate);
    TaskHandle running = engine.push({.name = "running", .access = {write(x)}}, [gate, held] { gate.wait(); });
    REQUIRE(gate.reached());
    TaskHandle queued = engine.push({.name = "queued", .access = {write(x)}}, [held] { ++*held; });
    TaskHandle ready = engine.push({.name = "ready"}, [held] { ++*held; });
    for (int i = 0; i < 2; ++i) {
      CHECK(queued.cancel());
      CHECK(ready.cancel());
      CHECK_FALSE(running.cancel());
    }
    gate.open();
    running.wait();
    CHECK_THROWS_AS(queued.wait(), Cancelled);
    CHECK_THROWS_AS(ready.wait(), Cancelled);
    CHECK_FALSE(running.cancel());
    CHECK_THROWS_AS(engine.wait(x), Cancelled);
    CHECK(engine.counters().skipped == 2);
    CHECK(*held == 0);
  }
  CHECK(held.use_count() == 1);
}

namespace {

/// Uses the default engine at the process's end, before its own end or after.
struct UsesEngineAtExit {
  Var var;
  ~UsesEngineAtExit() {
    try {
      int ran = 0;
      Engine& engine = Engine::current();
      engine.push({.name = "at exit", .access = {}}, [&ran] { ++ran; });
      engine.wait_all();
      if (var)
        static_cast<void>(var.version());
    } catch (const Error&) {
    }
    var = Var();
  }
};

}  // namespace

TEST_CASE("T32: static objects may use the default engine and drop Vars when the process ends") {
  if (runs_alone()) {
    static UsesEngineAtExit before;  // destroyed after what the engine registers at its first use
    before.var = Engine::current().new_var();
    Engine::current().push({.name = "first", .access = {write(before.var)}}, [] {});
    static UsesEngineAtExit after;
    after.var = before.var;
    return;
  }
  CHECK(run_case_alone("T32: static objects*") == 0);
}
