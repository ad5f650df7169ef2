// Cases of the engine's specification in their full strength, which the tests beside them have in a weaker form.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
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

// While nothing else becomes ready, no task of a lower class begins before the last one of a higher class has begun,
// but for what the threads pick at the same moment, and for every 64th pick of each. They pick in rounds: nobody goes
// on before all of them have begun a task.
TEST_CASE("T15: sixteen workers take what is ready class by class, but for every 64th pick") {
  constexpr std::size_t k_workers = 16, k_each = 800;
  Engine engine({.workers = k_workers});
  Gate gate;
  OpensAtEnd opens(gate);
  for (std::size_t i = 0; i < k_workers; ++i)
    engine.push({.name = "hold"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached(k_workers));
  std::vector<int> bands(4 * k_each, 0);
  std::atomic<std::size_t> begun{0};
  std::atomic<bool> in_step{true};
  const Priority classes[] = {Priority::background, Priority::normal, Priority::urgent, Priority::high};
  for (std::size_t i = 0; i < bands.size(); ++i) {
    const Priority priority = classes[(i + i / 4) % 4];
    engine.push({.name = "work", .priority = priority}, [&, priority] {
      const std::size_t place = begun++;
      bands[place] = priority == Priority::urgent ? 0 : priority == Priority::background ? 2 : 1;
      const std::size_t round = (place / k_workers + 1) * k_workers;
      if (in_step && !eventually([&] { return begun >= round; }))
        in_step = false;
    });
  }
  gate.open();
  engine.wait_all();
  REQUIRE(in_step);
  CHECK(std::count(bands.begin(), bands.end(), 0) == k_each);
  CHECK(std::count(bands.begin(), bands.end(), 2) == k_each);
  std::size_t early = 0, last[3] = {};  // round in which the last task of a band began
  for (std::size_t i = 0; i < bands.size(); ++i)
    last[bands[i]] = i / k_workers;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    for (int higher = 0; higher < bands[i]; ++higher)
      early += i / k_workers < last[higher] ? 1 : 0;
  }
  CHECK(early <= 2 * (4 * k_each / 64) + 2 * k_workers);  // an aged pick may count against both higher bands
}

// Short tasks are left to the worker that has them, which may have no core just then.
TEST_CASE("T15: what lies in the ring of a worker that is held comes before background tasks, however short") {
  constexpr int k_short = 8, k_warm = 2000, k_rounds = 40;
  Engine engine({.workers = 2});
  std::atomic<int> begun{0}, early{0};
  std::atomic<bool> in_time{true};
  engine.push({.name = "holds its worker"}, [&] {
    for (int round = 0; round < k_rounds; ++round) {
      for (int i = 0; i < k_warm; ++i)
        engine.push({.name = "tells how short tasks are"}, [] {});
      std::atomic<bool> warm{false};
      engine.push({.name = "last of them"}, [&] { warm = true; });
      in_time = in_time && eventually([&] { return warm.load(); });
      begun = 0;
      for (int i = 0; i < k_short; ++i)
        engine.push({.name = "short"}, [&] { ++begun; });
      std::atomic<bool> ran{false};
      engine.push({.name = "background", .priority = Priority::background}, [&] {
        early += begun < k_short ? 1 : 0;
        ran = true;
      });
      in_time = in_time && eventually([&] { return ran.load(); });
    }
  });
  engine.wait_all();
  CHECK(in_time);
  CHECK(early <= k_rounds / 2);  // the other worker's every 64th pick may be it, and it picks nine or more a round
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
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial, CpuMode::chaos}) {
    CAPTURE(to_string(policy));
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
  std::set<std::shared_ptr<const FailureRecord>> told;  // two cores may count one tick: numbers of theirs are not apart
  for (bool threw = true; threw;) {
    threw = false;
    try {
      engine.wait_all();
    } catch (const ValueError& error) {
      threw = true;
      numbers.push_back(error.record()->push_number);
      told.insert(error.record());
    }
  }
  CHECK(numbers.size() == k_threads * k_each);
  CHECK(std::is_sorted(numbers.begin(), numbers.end()));
  CHECK(told.size() == numbers.size());
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

namespace {

std::atomic<bool> leaving{false}, finished{false};

/// A static object that a task of this process outlives if it ends with 3.
struct EndsAfterTasks {
  ~EndsAfterTasks() {
    if (!finished.load())
      _exit(3);
  }
};

/// An engine that nobody ends, with a task that begins what needs the engine's lists when the process ends.
void leave_work_behind() {
  static EndsAfterTasks ends;
  static Engine* const engine = new Engine({.workers = 1});
  engine->push({.name = "goes on at exit"}, [] {
    while (!leaving.load())
      std::this_thread::yield();
    const pid_t child = fork();
    if (child == 0)
      _exit(0);
    int status = 1;
    const bool waited = waitpid(child, &status, 0) == child;
    const Engine another({.workers = 1});
    finished = waited && status == 0;
  });
}

struct Leaves {
  ~Leaves() { leaving = true; }
};

}  // namespace

TEST_CASE("T32: tasks of an engine that is never destroyed end before static objects, and may fork until then") {
  if (!runs_alone()) {
    CHECK(run_case_alone("T32: tasks of an engine that is never*") == 0);
    return;
  }
  leave_work_behind();
  static thread_local Leaves leaves;  // goes first, as it came last
  (void)leaves;
}

TEST_CASE("T32: tasks of an engine that another thread made end before static objects that were there before") {
  if (!runs_alone()) {
    CHECK(run_case_alone("T32: tasks of an engine that another*") == 0);
    return;
  }
  static thread_local Leaves leaves;
  (void)leaves;
  std::thread(leave_work_behind).join();
}
