// Engines and Vars come and go in any order.
#include <memory>
#include <thread>
#include <vector>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Counts its calls and notes what the program had done by then.
struct CountingHook final : RetireHook {
  std::atomic<int> calls{0}, done_at_call{0};
  std::atomic<int>* done = nullptr;
  bool pending_was_empty = false;
  void on_retire(const PositionSet& pending) noexcept override {
    pending_was_empty = pending.empty();
    if (done != nullptr)
      done_at_call = done->load();
    ++calls;
  }
};

}  // namespace

TEST_CASE("A Var outlives its engine, and says so") {
  Var survivor;
  CountingHook hook;
  {
    Engine engine({.workers = 2});
    survivor = engine.new_var({.on_retire = &hook});
    engine.push({.name = "write", .access = {write(survivor)}}, [] {});
  }
  CHECK(survivor.version() == 1);
  CHECK_THROWS_AS(survivor.engine(), EngineStopped);
  CHECK(hook.calls == 0);
  Engine other({.workers = 1});
  CHECK_THROWS_AS(other.push({.name = "foreign", .access = {read(survivor)}}, [] {}), ValueError);
  survivor = Var();
  CHECK(hook.calls == 1);
}

TEST_CASE("A push after stop throws EngineStopped, while Vars may still be read and dropped") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  int value = 0;
  for (int i = 0; i < 100; ++i)
    engine.push({.name = "count", .access = {write(x)}}, [&] { ++value; });
  engine.stop();
  CHECK(value == 100);
  CHECK(x.version() == 100);
  CHECK_THROWS_AS(engine.push({.name = "late", .access = {write(x)}}, [&] { ++value; }), EngineStopped);
  CHECK_THROWS_AS(engine.push({.name = "late, no Vars"}, [&] { ++value; }), EngineStopped);
  CHECK_NOTHROW(engine.stop());
  x = Var();
  CHECK(value == 100);
}

TEST_CASE("T23: the retire hook is called once, after every task that was pushed on the Var") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    std::atomic<int> done{0};
    CountingHook hook;
    hook.done = &done;
    Engine engine({.workers = 2, .cpu_policy = policy});
    {
      Var x = engine.new_var({.on_retire = &hook});
      for (int i = 0; i < 200; ++i)
        engine.push({.name = "touch", .access = {i % 2 == 0 ? write(x) : read(x)}}, [&] { ++done; });
    }
    engine.stop();
    CHECK(hook.calls == 1);
    CHECK(hook.done_at_call == 200);
    CHECK(hook.pending_was_empty);
  }
}

TEST_CASE("T23: a Var with tasks behind a closed gate retires only once they have run") {
  std::atomic<int> done{0};
  CountingHook hook;
  hook.done = &done;
  Engine engine({.workers = 2});
  Gate gate;
  OpensAtEnd opens(gate);
  {
    Var x = engine.new_var({.on_retire = &hook});
    engine.push({.name = "hold", .access = {write(x)}}, [gate] { gate.wait(); });
    for (int i = 0; i < 50; ++i)
      engine.push({.name = "touch", .access = {read(x)}}, [&] { ++done; });
  }
  Var other = engine.new_var();
  engine.push({.name = "beside", .access = {write(other)}}, [] {});
  engine.wait(other);
  CHECK(hook.calls == 0);
  gate.open();
  CHECK(eventually([&] { return hook.calls == 1; }));
  CHECK(hook.done_at_call == 50);
}

TEST_CASE("An unused Var retires as soon as its last handle goes") {
  Engine engine({.workers = 1});
  CountingHook hook;
  Var x = engine.new_var({.on_retire = &hook});
  Var copy = x;
  x = Var();
  CHECK(hook.calls == 0);
  Var moved = std::move(copy);
  CHECK(hook.calls == 0);
  moved = Var();
  CHECK(hook.calls == 1);
}

TEST_CASE("T24: threads drop Vars and push on them at the same time; each retires once") {
  Engine engine({.workers = 2});
  const int rounds = scaled(20'000);
  std::atomic<int> runs{0};
  std::vector<CountingHook> hooks(2 * static_cast<std::size_t>(rounds));
  auto churn = [&](int thread) {
    for (int i = 0; i < rounds; ++i) {
      Var x = engine.new_var({.on_retire = &hooks[static_cast<std::size_t>(2 * i + thread)]});
      Var y = x;
      engine.push({.name = "read", .access = {read(x)}}, [&] { ++runs; });
      engine.push({.name = "read", .access = {read(y)}}, [&] { ++runs; });
      x = Var();
      if (i % 2 == 0)
        engine.push({.name = "write", .access = {write(y)}}, [&] { ++runs; });
    }
  };
  std::thread other([&] { churn(1); });
  churn(0);
  other.join();
  engine.stop();
  CHECK(runs == 4 * rounds + 2 * ((rounds + 1) / 2));
  int wrong = 0;
  for (const CountingHook& hook : hooks)
    wrong += hook.calls == 1 ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("T32: engines are made and destroyed 100 times, with work under way") {
  std::atomic<int> runs{0};
  for (int i = 0; i < 100; ++i) {
    Engine engine({.workers = 1 + i % 4});
    Var x = engine.new_var();
    for (int task = 0; task < 20; ++task)
      engine.push({.name = "work", .access = {task % 3 == 0 ? write(x) : read(x)}}, [&] { ++runs; });
  }
  CHECK(runs == 2000);
}

TEST_CASE("Several engines work side by side, from several threads") {
  constexpr int k_engines = 4;
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<Var> vars;
  int values[k_engines] = {};
  for (int i = 0; i < k_engines; ++i) {
    engines.push_back(std::make_unique<Engine>(EngineOptions{.workers = 2}));
    vars.push_back(engines.back()->new_var());
  }
  const int rounds = scaled(5'000);
  auto pusher = [&] {
    for (int i = 0; i < k_engines * rounds; ++i) {
      const int at = i % k_engines;
      engines[at]->push({.name = "count", .access = {write(vars[at])}}, [&values, at] { ++values[at]; });
    }
  };
  std::thread other(pusher);
  pusher();
  other.join();
  for (int i = 0; i < k_engines; ++i) {
    engines[i]->wait(vars[i]);
    CHECK(values[i] == 2 * rounds);
    CHECK(&vars[i].engine() == engines[i].get());
  }
}

TEST_CASE("A body that holds a Var of another engine may push there") {
  Engine first({.workers = 1}), second({.workers = 1});
  Var x = first.new_var(), y = second.new_var();
  int value = 0;
  first.push({.name = "here", .access = {write(x)}}, [&] {
    second.push({.name = "there", .access = {write(y)}}, [&] { value = 1; });
  });
  first.wait(x);
  second.wait(y);
  CHECK(value == 1);
}

TEST_CASE("A Var of another engine, or none, is refused by name") {
  Engine mine({.workers = 1}), other({.workers = 1});
  Var x = mine.new_var(), foreign = other.new_var(), none;
  bool ran = false;
  CHECK_THAT(
      text_of_error([&] {
        mine.push({.name = "mixes", .access = {write(x), read(foreign)}}, [&] { ran = true; });
      }),
      contains("mixes"));
  CHECK_THROWS_AS(mine.push({.name = "mixes", .access = {read(foreign)}}, [&] { ran = true; }), ValueError);
  CHECK_THROWS_AS(mine.push({.name = "empty", .access = {read(none)}}, [&] { ran = true; }), ValueError);
  CHECK_THROWS_AS(mine.wait(foreign), ValueError);
  CHECK_THROWS_AS(mine.wait(none), ValueError);
  other.stop();
  int line = 0;
  const std::string empty =
      text_of_error([&] { line = __LINE__, mine.push({.name = "e", .access = {read(none)}}, [] {}); });
  CHECK(empty == message("push: task \"e\" names an empty Var\n  at ", __FILE__, ":", line));
  const std::string late = text_of_error([&] { line = __LINE__, other.push({.name = "late"}, [] {}); });
  CHECK(late == message("push: task \"late\" came after the engine stopped\n  at ", __FILE__, ":", line));
  mine.wait_all();
  CHECK_FALSE(ran);
  mine.push({.name = "goes on", .access = {write(x)}}, [&] { ran = true; });
  mine.wait(x);
  CHECK(ran);
}

TEST_CASE("EngineScope and a running task say which engine is the current one") {
  Engine outer({.workers = 1}), inner({.workers = 1});
  Engine& standard = Engine::current();
  CHECK(&standard == &Engine::current());
  Engine *in_task = nullptr, *in_queue = nullptr, *in_thread = nullptr;
  {
    EngineScope outer_scope(outer);
    CHECK(&Engine::current() == &outer);
    {
      EngineScope inner_scope(inner);
      CHECK(&Engine::current() == &inner);
      Var x = outer.new_var();
      outer.push({.name = "look", .access = {write(x)}}, [&](Queue queue) {
        in_task = &Engine::current();
        in_queue = &queue.engine();
      });
      outer.wait(x);
      std::thread([&] { in_thread = &Engine::current(); }).join();
    }
    CHECK(&Engine::current() == &outer);
  }
  CHECK(&Engine::current() == &standard);
  CHECK(in_task == &outer);
  CHECK(in_queue == &outer);
  CHECK(in_thread == &standard);
}

TEST_CASE("The default engine is there without being asked for, and runs tasks") {
  Engine& standard = Engine::current();
  Var x = standard.new_var();
  int value = 0;
  standard.push({.name = "work", .access = {write(x)}}, [&] { value = 2; });
  standard.wait(x);
  CHECK(value == 2);
  CHECK(&x.engine() == &standard);
}

TEST_CASE("A room's extension is made once and destroyed after the engine and its last Var") {
  struct Extension {
    explicit Extension(Engine& engine) : owner(&engine) { ++made(); }
    ~Extension() { ++destroyed(); }
    static std::atomic<int>& made() {
      static std::atomic<int> count{0};
      return count;
    }
    static std::atomic<int>& destroyed() {
      static std::atomic<int> count{0};
      return count;
    }
    Engine* owner;
  };
  Var survivor;
  {
    Engine engine({.workers = 2}), second({.workers = 1});
    survivor = engine.new_var();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] { engine.extension<Extension>(); });
    for (std::thread& thread : threads)
      thread.join();
    CHECK(Extension::made() == 1);
    CHECK(&detail::EngineAccess::core(*engine.extension<Extension>().owner) == &detail::EngineAccess::core(engine));
    CHECK(&detail::EngineAccess::core(*second.extension<Extension>().owner) == &detail::EngineAccess::core(second));
    CHECK(Extension::made() == 2);
  }
  CHECK(Extension::destroyed() == 1);
  survivor = Var();
  CHECK(Extension::destroyed() == 2);
}

TEST_CASE("A group may be dropped while a thread and a coroutine wait for it") {
  Engine engine({.workers = 1});
  auto group = std::make_unique<TaskGroup>(engine);
  TaskCompletion completion;
  Gate there, awaits;
  group->push({.name = "member"}, [&](Queue queue) {
    completion = queue.complete_later();
    there.open();
  });
  REQUIRE(there.wait());
  bool over = false;
  TaskHandle coroutine = engine.push({.name = "coroutine"}, [&]() -> Coroutine {
    awaits.open();
    co_await *group;
    over = true;
  });
  REQUIRE(awaits.wait());
  engine.push({.name = "after"}, [] {}).wait();  // the only worker has left it
  const std::uint64_t waits = engine.counters().waits;
  std::thread thread([&group] { group->wait(); });
  CHECK(eventually([&] { return engine.counters().waits > waits; }));
  group.reset();
  completion.complete();
  thread.join();
  CHECK_NOTHROW(coroutine.wait());
  CHECK(over);
}
