// For who keeps something of a Var for many callers: which writes are over, and tasks that are pushed for all of them.
#include <ctime>
#include <stop_token>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/task_group.h>

#include "tests/engine/expect.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::ApartScope;
using sluice::detail::EngineAccess;

TEST_CASE("A write that fails or is skipped counts as over, and not as a version") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy));
    Var x = engine.new_var(), y = engine.new_var();
    const auto over = [](const Var& var) {
      const auto number = EngineAccess::writes_done(var);
      REQUIRE(number);
      return *number;
    };
    const auto push = [&](const AccessList& access, bool fails) {
      engine.push({.name = "writes", .access = access}, [fails] {
        if (fails)
          throw ValueError("planned");
      });
      text_of_error([&] { engine.wait_all(); });
    };
    std::uint64_t at = over(x);
    for (int round = 1; round < 4; ++round) {
      push({write(x)}, true);
      CHECK(over(x) != at);
      at = over(x);
      const std::uint64_t other = over(y);
      push({read(x), write(y)}, false);  // skipped
      CHECK(over(y) != other);
      CHECK(over(x) == at);
      CHECK(y.version() == 0);
      push({out(x)}, false);
      CHECK(over(x) != at);
      at = over(x);
      CHECK(x.version() == static_cast<std::uint64_t>(round));
    }
  }
}

TEST_CASE("While a write is pushed and not over there is no number of those that are") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "reads", .access = {read(x)}}, [gate] { gate.wait(); });
  CHECK(EngineAccess::writes_done(x) == 0);
  engine.push({.name = "writes", .access = {write(x)}}, [] {});
  CHECK_FALSE(EngineAccess::writes_done(x));
  gate.open();
  engine.wait_all();
  CHECK(EngineAccess::writes_done(x) == 1);
}

TEST_CASE("What is pushed for all is in nobody's group and does not stop with who pushes it") {
  Engine engine({.workers = 2});
  Gate gate;
  const OpensAtEnd opens(gate);
  TaskGroup group(engine);
  const auto push = [&engine](const Var& var) { engine.push({.name = "for all", .access = {write(var)}}, [] {}); };
  Var outside = engine.new_var(), own = engine.new_var();
  engine.push({.name = "gate", .access = {write(outside), write(own)}}, [gate] { gate.wait(); });
  Var inside = engine.new_var(), last = engine.new_var();
  {
    const GroupScope member(group);
    {
      const ApartScope apart;
      push(outside);
      std::stop_source stop;  // a token of the task's own counts all the same
      engine.push({.name = "stops", .access = {write(last)}, .stop = stop.get_token()}, [] {});
      engine.wait(last);
    }
    CHECK(group.done());
    push(own);
    CHECK_FALSE(group.done());
  }
  Gate pushed;
  group.push({.name = "asks"}, [&] {
    const ApartScope apart;
    engine.push({.name = "for all", .access = {read(outside), write(inside)}}, [] {});
    pushed.open();
  });
  REQUIRE(pushed.wait());
  group.cancel();
  gate.open();
  CHECK(text_of_error([&] { engine.wait(own); }) != "");
  CHECK(text_of_error([&] { engine.wait(outside); }) == "");
  CHECK(text_of_error([&] { engine.wait(inside); }) == "");
  CHECK(inside.version() == 1);
}

TEST_CASE("A task that runs on top of who pushes for all pushes for itself") {
  Engine engine({.cpu_policy = CpuMode::serial});  // where a push runs the task
  TaskGroup group(engine);
  Var var = engine.new_var();
  {
    const ApartScope apart;
    group.push({.name = "member"}, [] {});  // apart, as all that is pushed here
    engine.push({.name = "on top"}, [&] {
      group.cancel();
      group.push({.name = "cancelled", .access = {write(var)}}, [] {});
    });
  }
  CHECK(text_of_error([&] { engine.wait(var); }) != "");
}

namespace {

// So long that nobody who looks for a tenth of a second sees the end, on a processor of its own.
void compute_for_long() {
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 4;
  while (std::clock() < end) {
  }
}

}  // namespace

TEST_CASE("Who is short of what tasks hold waits for one that computes, not for one that waits itself", "[memory]") {
  Engine engine({.workers = 1});
  CHECK_FALSE(sluice::detail::EngineAccess::await_task(engine));  // there is none
  engine.push({.name = "computes"}, compute_for_long);
  CHECK(sluice::detail::EngineAccess::await_task(engine));
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "waits"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  CHECK_FALSE(sluice::detail::EngineAccess::await_task(engine));
}
