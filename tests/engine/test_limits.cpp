// Back-pressure, threads that attach themselves, and engines that end in odd places.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <set>
#include <string>
#include <thread>

#include <sluice/engine/api.h>
#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T34: a pusher outside rests at the limit and goes on as tasks finish") {
  constexpr std::uint64_t k_limit = 1000;
  Engine engine({.workers = 1, .max_live_tasks = k_limit});
  Var x = engine.new_var();
  std::atomic<std::uint64_t> pushed{0}, done{0}, most{0};
  for (int i = 0; i < 20000; ++i) {
    engine.push({.name = "step", .access = {write(x)}}, [&] { done.fetch_add(1); });
    pushed.fetch_add(1);
    const std::uint64_t alive = pushed.load() - done.load();
    if (alive > most.load())
      most.store(alive);
  }
  engine.wait(x);
  CHECK(done == 20000);
  CHECK(most <= k_limit + 64);  // asked every 64 pushes
}

TEST_CASE("T34: a pusher that holds the gate itself is let through") {
  Engine engine({.workers = 1, .max_live_tasks = 100});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  std::atomic<int> done{0};
  engine.push({.name = "gate", .access = {write(x)}}, [gate] { gate.wait(); });
  for (int i = 0; i < 2000; ++i)
    engine.push({.name = "behind", .access = {write(x)}}, [&] { ++done; });
  CHECK(done == 0);
  gate.open();
  engine.wait(x);
  CHECK(done == 2000);
}

TEST_CASE("T34: nested pushes never rest, whatever the limit") {
  Engine engine({.workers = 1, .max_live_tasks = 10});
  Var x = engine.new_var();
  std::atomic<int> done{0}, done_in_parent{-1};
  engine.push({.name = "parent", .access = {write(x)}}, [&] {
    for (int i = 0; i < 5000; ++i)
      engine.push({.name = "child", .access = {write(x)}}, [&] { ++done; });
    done_in_parent = done.load();  // they all come after this body, so a rest would have been for ever
  });
  engine.wait_all();
  CHECK(done_in_parent == 0);
  CHECK(done == 5000);
}

TEST_CASE("an attached thread runs tasks while it waits, and when it has pushed more than others run") {
  Engine engine({.workers = 1});
  Var gated = engine.new_var(), x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  const std::thread::id me = std::this_thread::get_id();
  std::atomic<int> by_me{0}, done{0};
  engine.push({.name = "keeps the worker", .access = {write(gated)}}, [gate] { gate.wait(); });
  CHECK(gate.reached());
  {
    AttachScope attached(engine);
    for (int i = 0; i < 1000; ++i) {
      engine.push({.name = "step"}, [&] {
        by_me += std::this_thread::get_id() == me ? 1 : 0;
        ++done;
      });
    }
    CHECK(by_me > 0);  // the only worker stands at the gate
    for (int i = 0; i < 100; ++i)
      engine.push({.name = "chain", .access = {write(x)}}, [&] { ++done; });
    engine.wait(x);
  }
  CHECK(done >= 100);
  gate.open();
  engine.wait_all();
  CHECK(done == 1100);
}

TEST_CASE("a thread that is not attached never runs a task inside push or wait") {
  Engine engine({.workers = 1});
  const std::thread::id me = std::this_thread::get_id();
  std::atomic<int> by_me{0};
  for (int i = 0; i < 5000; ++i)
    engine.push({.name = "step"}, [&] { by_me += std::this_thread::get_id() == me ? 1 : 0; });
  engine.wait_all();
  CHECK(by_me == 0);
}

TEST_CASE("what an attached thread leaves behind when it detaches is run by workers") {
  Engine engine({.workers = 1});
  std::atomic<int> done{0};
  for (int round = 0; round < 50; ++round) {
    {
      AttachScope attached(engine);
      for (int i = 0; i < 10; ++i)
        engine.push({.name = "left behind"}, [&] { ++done; });
    }
    CHECK(eventually([&] { return done == 10 * (round + 1); }));  // without a wait, which would run them
  }
}

TEST_CASE("workers carry the engine's name and stay on the cores that the options name") {
  cpu_set_t usable;
  REQUIRE(sched_getaffinity(0, sizeof usable, &usable) == 0);
  int core = 0;
  while (!CPU_ISSET(core, &usable))
    ++core;
  Engine engine({.workers = 2, .name = "mixer", .cores = {core}});
  Meeting both(2);
  std::mutex mutex;
  std::set<std::string> names;
  std::atomic<int> misplaced{0};
  for (int i = 0; i < 2; ++i) {
    engine.push({.name = "looks"}, [&, both, core] {
      char name[16] = {};
      pthread_getname_np(pthread_self(), name, sizeof name);
      cpu_set_t allowed;
      const bool there = sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) == 1;
      misplaced += there && CPU_ISSET(core, &allowed) && sched_getcpu() == core ? 0 : 1;
      {
        const std::lock_guard hold(mutex);
        names.insert(name);
      }
      both.join();
    });
  }
  engine.wait_all();
  CHECK(misplaced == 0);
  CHECK((names == std::set<std::string>{"mixer-0", "mixer-1"}));
  CHECK_THAT(text_of_error([] { Engine({.cores = {-3}}); }), contains("core -3"));
  CHECK_THROWS_AS(Engine({.cores = {100000}}), ValueError);
  CHECK_THROWS_AS(Engine({.hot_reads = -1}), ValueError);
}

TEST_CASE("an attached thread's task may wait, push and be waited for like any other") {
  Engine engine({.workers = 1});
  AttachScope attached(engine);
  Var a = engine.new_var(), b = engine.new_var();
  std::atomic<int> done{0};
  for (int i = 0; i < 600; ++i) {
    engine.push({.name = "outer", .access = {write(a)}}, [&] {
      engine.push({.name = "inner", .access = {write(b)}}, [&] { ++done; });
      engine.wait(b);
    });
  }
  engine.wait(a);
  CHECK(done == 600);
}

namespace {
struct Beside {
  explicit Beside(Engine& its) : engine(its) {}
  Engine& engine;
};
}  // namespace

TEST_CASE("T32: what stands beside an engine outlives one that is destroyed by its own task") {
  alignas(Engine) std::byte room[sizeof(Engine)];
  auto* const engine = ::new (static_cast<void*>(room)) Engine({.workers = 2});
  Var x = engine->new_var();
  std::atomic<int> workers{0}, after{0};
  engine->push({.name = "destroys", .access = {write(x)}}, [&] {
    Beside& beside = engine->extension<Beside>();
    engine->~Engine();
    std::memset(room, 0xff, sizeof room);  // its place is another's now
    workers = beside.engine.workers();
    beside.engine.push({.name = "after", .access = {write(x)}}, [&] { ++after; });
  });
  CHECK(eventually([&] { return !text_of_error([&] { x.engine(); }).empty(); }));
  CHECK(workers == 2);
  CHECK(after == 1);
}

TEST_CASE("T32: an engine destroyed by one of its own tasks where the system has no thread left runs its tasks") {
  std::atomic<int> done{0};
  auto* engine = new Engine({.workers = 1});
  Var x = engine->new_var();
  engine->push({.name = "destroys", .access = {write(x)}}, [&] {
    for (int i = 0; i < 10; ++i)
      engine->push({.name = "after", .access = {write(x)}}, [&] { ++done; });
    detail::test_faults().most_workers = 0;
    delete engine;
    detail::test_faults().most_workers = 1 << 20;
  });
  CHECK(eventually([&] { return done == 10; }));
  CHECK_THROWS_AS(x.engine().push({.name = "late"}, [] {}), EngineStopped);
}

TEST_CASE("T32: an engine destroyed by one of its own tasks runs what was pushed, and then stops") {
  std::atomic<int> done{0};
  Gate pushed;
  OpensAtEnd opens(pushed);
  auto* engine = new Engine({.workers = 2});
  Var x = engine->new_var();
  engine->push({.name = "destroys", .access = {write(x)}}, [engine, pushed] {
    pushed.wait();
    delete engine;
  });
  for (int i = 0; i < 100; ++i)
    engine->push({.name = "after", .access = {write(x)}}, [&] { ++done; });
  pushed.open();
  CHECK(eventually([&] {
    try {
      x.engine();
      return false;
    } catch (const EngineStopped&) {
      return true;
    }
  }));
  CHECK(done == 100);
}
