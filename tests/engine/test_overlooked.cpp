// Cases that planted faults asked for: no other noticed them.
#include <atomic>
#include <thread>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("Under the serial policy who ends a task from outside runs what waited for it") {
  Engine engine({.cpu_policy = CpuMode::serial});
  Var x = engine.new_var();
  TaskCompletion completion;
  engine.push({.name = "outside", .access = {write(x)}}, [&](Queue queue) { completion = queue.complete_later(); });
  bool ran = false;
  TaskHandle after = engine.push({.name = "after", .access = {read(x)}}, [&] { ran = true; });
  CHECK_FALSE(ran);
  std::thread([&] { completion.complete(); }).join();
  CHECK(ran);
  CHECK(after.done());
}

TEST_CASE("Commute: a body that waits for a run none of whose members is ready runs what they lack itself") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  std::thread::id where;
  bool same = false;
  engine
      .push(
          {.name = "waits"},
          [&] {
            engine.push({.name = "lacking", .access = {write(y)}}, [&] { where = std::this_thread::get_id(); });
            engine.push({.name = "member", .access = {commute(x), read(y)}}, [] {});
            engine.wait(x);
            same = where == std::this_thread::get_id();
          })
      .wait();
  CHECK(same);
}
