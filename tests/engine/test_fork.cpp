// What a forked child may do with an engine of its parent. Children report by their exit code.
#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <sluice/engine/api.h>
#include <sluice/engine/pending_wait.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/engine/in_flight.h"
#include "tests/support/child.h"
#include "tests/support/gate.h"

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads

using namespace sluice;
using namespace sluice::test;

namespace {

template <class E, class Act>
bool throws(Act act) {
  try {
    act();
  } catch (const E&) {
    return true;
  }
  return false;
}

int push_and_wait(Engine& engine) {
  Var x = engine.new_var(), y = engine.new_var();
  std::atomic<int> sum{0};
  for (int i = 1; i <= 100; ++i) {
    engine.push({.name = "child", .access = {write(x)}}, [&, i] { sum += i; });
    engine.push({.name = "beside", .access = {read(x), write(y)}}, [] {});
  }
  engine.wait_all();
  return sum == 5050 ? 0 : 1;
}

}  // namespace

TEST_CASE("T33: a child forked from an idle engine runs CPU tasks, with values of the parent intact") {
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var x = engine.new_var();
    int value = 0;
    engine.push({.name = "parent", .access = {write(x)}}, [&] { value = 5; });
    engine.wait_all();
    const int code = in_child([&] {
      engine.wait(x);
      if (value != 5 || x.version() != 1)
        return 2;
      engine.push({.name = "child", .access = {write(x)}}, [&] { value += 1; });
      engine.wait(x);
      return value == 6 ? push_and_wait(engine) : 3;
    });
    CHECK(code == 0);
    engine.wait(x);
    CHECK(value == 5);
    CHECK(push_and_wait(engine) == 0);
  }
}

TEST_CASE("T33: forked under load, a child finds what was under way failed, and goes on; the parent notices nothing") {
  Engine engine({.workers = 2});
  Var held = engine.new_var(), behind = engine.new_var(), only_read = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  std::atomic<int> done{0};
  engine.push({.name = "held", .access = {write(held), read(only_read)}}, [gate] { gate.wait(); });
  TaskHandle pending = engine.push({.name = "behind", .access = {read(held), write(behind)}}, [&] { ++done; });
  CHECK(gate.reached());
  std::atomic<bool> enough{false};
  std::thread pusher([&] {
    Var own = engine.new_var();
    while (!enough)
      engine.push({.name = "load", .access = {write(own)}}, [] {});
  });
  for (int round = 0; round < 10; ++round) {
    const int code = in_child([&] {
      if (!throws<Forked>([&] { engine.wait(held); }))
        return 2;
      if (!throws<Forked>([&] { engine.wait(behind); }))
        return 3;
      if (!throws<Forked>([&] { pending.wait(); }))
        return 4;
      engine.wait(only_read);
      engine.push({.name = "anew", .access = {out(behind)}}, [&] { done = 77; });
      engine.wait(behind);
      if (done != 77)
        return 5;
      if (!throws<Error>([&] { engine.push({.name = "gpu", .device = gpu(0)}, [] {}); }))
        return 6;
      return push_and_wait(engine);
    });
    CHECK(code == 0);
  }
  enough = true;
  pusher.join();
  gate.open();
  engine.wait_all();
  CHECK(done == 1);
}

TEST_CASE("T33: a child has a team of its own, whoever has the parent's") {
  Engine engine({.workers = 2});
  const auto granted = [&](Gate gate) {
    int threads = 0;
    engine.push({.name = "team", .threads = 2}, [&, gate](Queue queue) {
      threads = queue.threads();
      if (threads > 1)
        gate.wait();
    });
    engine.wait_all();
    return threads;
  };
  Gate open;
  open.open();
  REQUIRE(eventually([&] { return granted(open) == 2; }));
  const auto child_has_team = [&] {
    return in_child([&] { return eventually([&] { return granted(open) == 2; }) ? 0 : 2; });
  };
  CHECK(child_has_team() == 0);
  Engine other({.workers = 2});
  Gate closed;
  OpensAtEnd opens(closed);
  other.push({.name = "holds the team", .threads = 2}, [closed](Queue) { closed.wait(); });
  REQUIRE(closed.reached());
  CHECK(child_has_team() == 0);
}

TEST_CASE("T33: what the parent's tasks hold is not in flight in a child, whose pushes rest for their own alone") {
  Engine engine({.workers = 1, .max_bytes_in_flight = 4 * k_block});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var order = engine.new_var();
  engine.push({.name = "parent", .access = {write(order)}}, [&] {
    for (int i = 0; i < 100; ++i)
      push_holder(
          engine, {.name = "child task", .access = {write(order)}}, [] {}, k_block + 1024);
    gate.wait();
  });
  REQUIRE(eventually([&] { return engine.counters().bytes_in_flight == 100 * (k_block + 1024); }));
  const int code = in_child([&] {
    if (engine.counters().bytes_in_flight != 0)
      return 2;
    const Var own = engine.new_var();
    for (int i = 0; i < 5; ++i)
      push_holder(engine, {.name = "child", .access = {write(own)}}, [] {});
    if (engine.counters().rests != 0)
      return 3;
    engine.wait_all();
    return engine.counters().bytes_in_flight == 0 ? push_and_wait(engine) : 4;
  });
  CHECK(code == 0);
  gate.open();
  engine.wait_all();
  CHECK(engine.counters().bytes_in_flight == 0);
}

TEST_CASE("T33: what was urgent to the parent's tasks is not to a child's") {
  Engine engine({.workers = 1});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var x = engine.new_var();
  engine.push({.name = "holds the worker"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  for (const Priority priority : {Priority::background, Priority::background, Priority::urgent})
    engine.push({.name = "parent", .access = {write(x)}, .priority = priority}, [] {});
  const int code = in_child([&] {
    const Gate own;
    engine.push({.name = "holds the worker"}, [own] { own.wait(); });
    int before = 0, done = 0;
    for (int i = 0; i < 400; ++i)
      engine.push({.name = "noise"}, [&] { ++done; });
    engine.push({.name = "first", .access = {out(x)}, .priority = Priority::urgent}, [] {});
    for (int i = 0; i < 50; ++i)
      engine.push({.name = "later", .access = {write(x)}, .priority = Priority::background}, [&] { before = done; });
    own.open();
    engine.wait_all();
    return before > 8 ? 0 : 2;  // nobody who matters waits behind them: they let others between
  });
  CHECK(code == 0);
  gate.open();
  engine.wait_all();
}

TEST_CASE("T33: a child forked inside a task may only exec: its pushes are refused") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  int code = -1;
  engine.push({.name = "forks", .access = {write(x)}}, [&] {
    code = in_child([&] { return throws<Forked>([&] { engine.push({.name = "child"}, [] {}); }) ? 0 : 2; });
  });
  engine.wait(x);
  CHECK(code == 0);
  CHECK(push_and_wait(engine) == 0);
}

TEST_CASE("An engine that had stopped at the fork, or was about to, has stopped in the child, and may start again") {
  Engine engine({.workers = 1});
  const auto goes_on = [&engine] {
    engine.stop();
    if (!throws<EngineStopped>([&] { engine.push({.name = "late"}, [] {}); }))
      return 1;
    engine.restart();
    return push_and_wait(engine);
  };
  Gate gate;
  engine.push({.name = "holds the stop up"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  std::thread stops([&] { engine.stop(); });
  const auto refuses = [&] { return throws<EngineStopped>([&] { engine.push({.name = "late"}, [] {}); }); };
  CHECK(eventually(refuses));
  CHECK(in_child(goes_on) == 0);
  gate.open();
  stops.join();
  CHECK(in_child(goes_on) == 0);
  engine.restart();
  CHECK(push_and_wait(engine) == 0);
}

// Whoever told the observer goes on with what became ready beside it.
TEST_CASE("A child forked where tasks are put off may only exec: it does not run the parent's") {
  struct Forks final : WaitObserver {
    void complete(std::exception_ptr) noexcept override { child = fork(); }
    pid_t child = -1;
  } forks;
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  TaskCompletion completion = written_outside(engine, x);
  PendingWait(read(x), forks).start();
  std::atomic<int> ran{0};
  engine.push({.name = "reads", .access = {read(x)}}, [&] { ++ran; });
  CHECK(forks.child == -1);
  completion.complete();
  if (forks.child == 0) {
    alarm(50);
    const bool refused = throws<Forked>([&] { engine.push({.name = "child's"}, [] {}).wait(); });
    _exit(refused && ran == 0 ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(forks.child, &status, 0) == forks.child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  engine.wait_all();
  CHECK(ran == 1);
}

TEST_CASE("A child finds the locks of Vars free, also where the parent froze one just then") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::atomic<bool> enough{false};
  std::thread freezes([&] {
    while (!enough) {
      engine.freeze(x);
      engine.unfreeze(x);
    }
  });
  int left = 0;
  for (int i = 0; i < 20 && left == 0; ++i) {
    left = in_child([&] {
      engine.push({.name = "reads", .access = {read(x)}}, [] {}).wait();
      return 0;
    });
  }
  enough = true;
  freezes.join();
  CHECK(left == 0);
}

TEST_CASE("A child that ends or drops or cancels what the parent has under way changes nothing of its own") {
  Engine engine({.workers = 1});
  Var v = engine.new_var();
  TaskCompletion completion;
  Gate there, sleeps;
  engine.push({.name = "outside", .access = {write(v)}}, [&](Queue queue) {
    completion = queue.complete_later();
    there.open();
  });
  bool resumed = false;
  TaskHandle coroutine = engine.push({.name = "coroutine"}, [&]() -> Coroutine {
    sleeps.open();
    co_await v;
    resumed = true;
  });
  REQUIRE(there.wait());
  REQUIRE(sleeps.wait());
  engine.push({.name = "after"}, [] {}).wait();  // the only worker has left both
  CHECK(in_child([&] {
          completion.complete();
          return push_and_wait(engine);
        }) == 0);
  CHECK(in_child([&] {
          completion = TaskCompletion();
          return push_and_wait(engine);
        }) == 0);
  CHECK(in_child([&] {
          coroutine.cancel();
          return push_and_wait(engine);
        }) == 0);
  completion.complete();
  CHECK_NOTHROW(coroutine.wait());
  CHECK(resumed);
}

TEST_CASE("A child goes on with a group that was idle at the fork; one that was not refuses pushes") {
  Engine engine({.workers = 1});
  TaskGroup idle(engine, {.limit = 1}), busy(engine, {.limit = 1});
  idle.push({.name = "over"}, [] {});
  idle.wait();
  Gate gate;
  OpensAtEnd opens(gate);
  busy.push({.name = "under way"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  CHECK(in_child([&] {
          std::atomic<int> ran{0};
          for (int i = 0; i < 10; ++i)
            idle.push({.name = "child's"}, [&] { ++ran; });
          idle.wait();
          if (ran != 10 || !idle.done())
            return 1;
          if (!throws<Forked>([&] { busy.push({.name = "late"}, [] {}); }))
            return 2;
          return push_and_wait(engine);
        }) == 0);
  gate.open();
  CHECK_NOTHROW(busy.wait());
}

#endif
