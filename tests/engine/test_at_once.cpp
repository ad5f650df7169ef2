// Bodies that run where they are called, without a task (EngineAccess::run_at_once): only where nobody could tell.
#include <atomic>
#include <cfenv>
#include <thread>
#include <vector>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/engine/policies.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using detail::AtOnce;
using detail::EngineAccess;

constexpr std::initializer_list<CpuMode> k_at_once = {CpuMode::pool, CpuMode::serial};

/// An engine that has run something: the first push of all sees to threads.
struct Ready {
  explicit Ready(CpuMode policy, int workers = 2) : engine(options_of(policy, workers)) {
    engine.push({.name = "first"}, [] {});
    engine.wait_all();
  }
  Engine engine;
};

template <class Body>
bool at_once(Engine& engine, std::initializer_list<Var> reads, const Var& made, Body&& body) {
  std::vector<detail::VarCore*> cores;
  for (const Var& var : reads)
    cores.push_back(var.core());
  detail::VarCore* const makes = made.core();
  const AtOnce call{.name = "short", .site = {"here.cpp", 7}, .reads = cores, .makes = {&makes, 1}};
  return EngineAccess::run_at_once(engine, call, [&](Queue) { body(); });
}

}  // namespace

TEST_CASE("A short body runs on the thread that calls it, as if it had been pushed", "[at_once]") {
  for (const CpuMode policy : k_at_once) {
    Ready ready(policy);
    Engine& engine = ready.engine;
    const Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
    const EngineCounters before = engine.counters();
    std::thread::id ran_in;
    CHECK(at_once(engine, {b, a, b}, c, [&] { ran_in = std::this_thread::get_id(); }));
    CHECK(ran_in == std::this_thread::get_id());
    CHECK(c.version() == 1);
    CHECK(engine.counters().pushed == before.pushed + 1);
    CHECK(engine.counters().run == before.run + 1);
    int order = 0;
    engine.push({.name = "next", .access = {write(a), write(b), read(c)}}, [&] { order = 1; }).wait();
    CHECK(order == 1);
  }
}

TEST_CASE("A short body does not run on a thread that computes in another way than its engine", "[at_once]") {
  for (const CpuMode policy : k_at_once) {
    Ready ready(policy);
    const Var a = ready.engine.new_var(), c = ready.engine.new_var();
    const int rounding = std::fegetround();
    REQUIRE(std::fesetround(FE_DOWNWARD) == 0);
    const bool ran = at_once(ready.engine, {a}, c, [] {});
    REQUIRE(std::fesetround(rounding) == 0);
    CHECK_FALSE(ran);
    CHECK(at_once(ready.engine, {a}, c, [] {}));
  }
}

TEST_CASE("A short body does not run before what it reads was written, nor does it leave a trace then", "[at_once]") {
  Ready ready(CpuMode::pool);
  Engine& engine = ready.engine;
  const Var a = engine.new_var(), c = engine.new_var();
  Held held(engine);
  const EngineCounters before = engine.counters();
  for (const auto& reads : {std::initializer_list<Var>{a, held.var}, {held.var, a}, {held.var}})
    CHECK_FALSE(at_once(engine, reads, c, [] { FAIL("ran"); }));
  CHECK(engine.counters().pushed == before.pushed);
  CHECK(c.version() == 0);
  bool written = false;
  engine.push({.name = "writes", .access = {write(a)}}, [&] { written = true; }).wait();  // nobody stands before it
  CHECK(written);
  held.gate.open();
  engine.wait(held.var);
  CHECK(at_once(engine, {a, held.var}, c, [] {}));
}

TEST_CASE("Writers that come while a short body reads wait for its end, and then begin", "[at_once]") {
  for (const CpuMode policy : k_at_once) {
    Ready ready(policy, 1);
    Engine& engine = ready.engine;
    const Var a = engine.new_var(), c = engine.new_var();
    bool over = false, began_after = false;
    CHECK(at_once(engine, {a}, c, [&] {
      std::thread([&] {
        engine.push({.name = "writes", .access = {write(a)}}, [&] { began_after = over; });
        if (has_workers(policy))
          let_pass(engine);
      }).join();
      over = true;
    }));
    engine.wait(a);
    CHECK(began_after);
  }
}

TEST_CASE("What a short body throws is the failure of what it makes, and reported once", "[at_once]") {
  for (const CpuMode policy : k_at_once) {
    Ready ready(policy);
    Engine& engine = ready.engine;
    const Var a = engine.new_var(), c = engine.new_var(), d = engine.new_var();
    const EngineCounters before = engine.counters();
    CHECK(at_once(engine, {a}, c, [] { throw ValueError("bad"); }));
    CHECK(engine.counters().failed == before.failed + 1);
    CHECK(c.version() == 0);
    CHECK_FALSE(at_once(engine, {c}, d, [] { FAIL("read what is not there"); }));
    expect_error<ValueError>(
        [&] { engine.wait(c); },
        [](const Error& error) {
          CHECK(std::string(error.what()).find("short") != std::string::npos);
          CHECK(std::string(error.what()).find("here.cpp:7") != std::string::npos);
        });
    CHECK_NOTHROW(engine.wait_all());
    CHECK_NOTHROW(engine.wait(a));
    CHECK(at_once(engine, {a}, c, [] { throw ValueError("worse"); }));
    CHECK_THROWS_AS(engine.wait_all(), ValueError);
  }
}

TEST_CASE("Inside tasks, groups, traces, stopped engines and other policies bodies go the way of a push", "[at_once]") {
  Ready ready(CpuMode::pool);
  Engine& engine = ready.engine;
  const Var a = engine.new_var(), c = engine.new_var();
  const auto runs = [&] { return at_once(engine, {a}, c, [] {}); };
  bool ran = true;
  engine.push({.name = "task"}, [&] { ran = runs(); }).wait();
  CHECK_FALSE(ran);
  {
    TaskGroup group(engine);
    const GroupScope scope(group);
    CHECK_FALSE(runs());
  }
  engine.start_trace();
  CHECK_FALSE(runs());
  engine.stop_trace();
  CHECK(runs());
  engine.stop();
  CHECK_FALSE(runs());
  engine.restart();
  engine.push({.name = "first"}, [] {}).wait();
  CHECK(runs());
  for (const CpuMode policy : {CpuMode::chaos, CpuMode::chaos_pool}) {
    Ready other(policy);
    const Var x = other.engine.new_var(), y = other.engine.new_var();
    CHECK_FALSE(at_once(other.engine, {x}, y, [] {}));
  }
}

TEST_CASE("Under the serial policy a short body does not run beside another thread's", "[at_once]") {
  Ready ready(CpuMode::serial);
  Engine& engine = ready.engine;
  const Var a = engine.new_var(), c = engine.new_var();
  Gate gate, there;
  std::thread other([&] {
    engine.push({.name = "holds"}, [&] {
      there.open();
      gate.wait();
    });
  });
  REQUIRE(there.wait());
  CHECK_FALSE(at_once(engine, {a}, c, [] {}));
  gate.open();
  other.join();
  CHECK(at_once(engine, {a}, c, [&] {
    std::thread([&] { engine.push({.name = "left", .access = {write(a)}}, [] {}); }).join();
  }));
  CHECK(a.version() == 1);  // by who had the turn
}

TEST_CASE("Short readers on many threads see what writers leave, all of it and of one moment", "[at_once]") {
  for (const CpuMode policy : k_at_once) {
    for (const int hot_reads : {2, 1000}) {
      EngineOptions options = options_of(policy);
      options.hot_reads = hot_reads;
      Engine engine(options);
      const Var x = engine.new_var(), y = engine.new_var();
      std::uint64_t first = 0, second = 0;  // always written as a pair
      std::atomic<int> wrong{0}, at_once_count{0}, pushers{2};
      const int rounds = scaled(2'000);
      std::vector<std::thread> threads;
      for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&] {
          for (int i = 0; i < rounds; ++i) {
            engine.push({.name = "both", .access = {write(x), write(y)}}, [&] { first = ++second; });
            if (i % 8 == 0)
              std::this_thread::yield();
            while (i == rounds / 2 && at_once_count == 0)  // some find nothing in their way
              std::this_thread::yield();
          }
          --pushers;
        });
        threads.emplace_back([&] {
          while (pushers > 0) {
            const Var c = engine.new_var();
            at_once_count += at_once(engine, {y, x}, c, [&] { wrong += first != second ? 1 : 0; }) ? 1 : 0;
          }
        });
      }
      for (std::thread& thread : threads)
        thread.join();
      engine.wait_all();
      CHECK(wrong == 0);
      CHECK(at_once_count > 0);
      CHECK(first == 2 * static_cast<std::uint64_t>(rounds));
    }
  }
}
