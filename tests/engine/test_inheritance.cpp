// T16: what an urgent task waits for becomes as urgent as it is.
#include <algorithm>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/engine/detail/test_faults.h>
#include <sluice/engine/detail/var_core.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// One worker, held at a gate while a test pushes; what then runs says its name.
struct Bench {
  Engine engine{EngineOptions{.workers = 1}};
  Gate gate;
  OpensAtEnd opens{gate};
  std::mutex mutex;
  std::vector<std::string> order;

  Bench() {
    engine.push({.name = "holds the worker"}, [gate = gate] { gate.wait(); });
    CHECK(gate.reached());
  }
  auto says(const std::string& name) {
    return [this, name] {
      const std::lock_guard hold(mutex);
      order.push_back(name);
    };
  }
  void noise(Priority priority, int count) {
    for (int i = 0; i < count; ++i)
      engine.push({.name = "noise", .priority = priority}, says("noise"));
  }
  void run() {
    gate.open();
    engine.wait_all();
  }
  std::ptrdiff_t place(const std::string& name) const {
    return std::find(order.begin(), order.end(), name) - order.begin();
  }
  std::ptrdiff_t last_place(const std::string& name) const {
    return order.rend() - std::find(order.rbegin(), order.rend(), name) - 1;
  }
};

}  // namespace

TEST_CASE("T16: an urgent task lifts the background writer that holds its Var over normal tasks") {
  Bench bench;
  Var x = bench.engine.new_var();
  bench.noise(Priority::normal, 100);
  bench.engine.push({.name = "holder", .access = {write(x)}, .priority = Priority::background}, bench.says("holder"));
  bench.engine.push({.name = "urgent", .access = {read(x)}, .priority = Priority::urgent}, bench.says("urgent"));
  bench.run();
  CHECK(bench.order.size() == 102);
  CHECK(bench.place("holder") <= 2);
  CHECK(bench.place("urgent") == bench.place("holder") + 1);
}

// A Var remembers who came in by an address with a tag; the task at that address may be the one that is pushed now.
TEST_CASE("T16: so it is where the urgent task lies where one lay that had the Var before") {
  Bench bench;
  const Var x = bench.engine.new_var();
  bench.gate.open();
  std::vector<TaskHandle> before;
  {
    Held held(bench.engine);
    for (int i = 0; i < 3; ++i)
      before.push_back(bench.engine.push({.name = "before", .access = {read(held.var), write(x)}}, [] {}));
  }
  bench.engine.wait_all();
  const Gate gate;
  const OpensAtEnd opens(gate);
  bench.engine.push({.name = "holds the worker"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  bench.noise(Priority::normal, 100);
  bench.engine.push({.name = "holder", .access = {write(x)}, .priority = Priority::background}, bench.says("holder"));
  before.pop_back();  // its place is the first that this thread takes again
  bench.engine.push({.name = "urgent", .access = {write(x)}, .priority = Priority::urgent}, bench.says("urgent"));
  gate.open();
  bench.engine.wait_all();
  CHECK(bench.place("urgent") <= 3);
}

TEST_CASE("T16: a whole chain of background tasks in front of an urgent one is lifted") {
  Bench bench;
  Var x = bench.engine.new_var();
  bench.noise(Priority::normal, 100);
  for (int i = 0; i < 20; ++i)
    bench.engine.push({.name = "link", .access = {write(x)}, .priority = Priority::background}, bench.says("link"));
  bench.engine.push({.name = "urgent", .access = {write(x)}, .priority = Priority::urgent}, bench.says("urgent"));
  bench.run();
  CHECK(bench.order.size() == 121);
  CHECK(bench.place("urgent") <= 22);  // every 64th pick takes the lowest class first
}

TEST_CASE("T16: a chain that is longer than what one push raises is lifted, whatever it was raised for before") {
  const int links = GENERATE(33, 40, 200);
  CAPTURE(links);
  Bench bench;
  const Var x = bench.engine.new_var();
  bench.noise(Priority::normal, 1000);
  for (int i = 0; i < links; ++i)
    bench.engine.push({.name = "link", .access = {write(x)}, .priority = Priority::background}, bench.says("link"));
  bench.engine.push({.name = "high", .access = {write(x)}, .priority = Priority::high}, bench.says("high"));
  for (int i = 0; i < links; ++i)
    bench.engine.push({.name = "link", .access = {write(x)}, .priority = Priority::background}, bench.says("link"));
  bench.engine.push({.name = "urgent", .access = {write(x)}, .priority = Priority::urgent}, bench.says("urgent"));
  constexpr int k_after = 200;
  for (int i = 0; i < k_after; ++i)
    bench.engine.push({.name = "after", .access = {write(x)}, .priority = Priority::background}, bench.says("after"));
  bench.run();
  const int chain = 2 * links + 2;
  CHECK(bench.place("urgent") <= chain + chain / 32);  // every 64th pick takes the lowest class first
  // Nobody who matters waits behind: those who follow let others between.
  CHECK(bench.last_place("after") > chain + k_after + 8);
}

TEST_CASE("T16: a group of background readers in front of an urgent writer is lifted") {
  Bench bench;
  Var x = bench.engine.new_var();
  bench.noise(Priority::high, 50);
  for (int i = 0; i < 10; ++i)
    bench.engine.push({.name = "reader", .access = {read(x)}, .priority = Priority::background}, bench.says("reader"));
  bench.engine.push({.name = "urgent", .access = {write(x)}, .priority = Priority::urgent}, bench.says("urgent"));
  bench.run();
  CHECK(bench.order.size() == 61);
  CHECK(bench.place("urgent") <= 12);
}

TEST_CASE("T16: urgency that passes a group of readers fences and wakes while nobody holds their Var's lock") {
  Bench bench;
  Var x = bench.engine.new_var();
  for (int i = 0; i < 32; ++i)
    bench.engine.push({.name = "reader", .access = {read(x)}, .priority = Priority::background}, bench.says("reader"));
  detail::TestFaults& faults = detail::test_faults();
  faults.probes = faults.found_held = 0;
  faults.probed = &x.core()->lock;
  bench.engine.push({.name = "urgent", .access = {write(x)}, .priority = Priority::urgent}, bench.says("urgent"));
  faults.probed = nullptr;
  CHECK(faults.probes > 0);
  CHECK(faults.found_held == 0);
  bench.run();
  CHECK(bench.place("urgent") == 32);
}

TEST_CASE("T16: urgency goes on through the other Vars of the tasks that it lifts") {
  Bench bench;
  Var a = bench.engine.new_var(), b = bench.engine.new_var(), c = bench.engine.new_var();
  bench.noise(Priority::normal, 100);
  for (const auto& [name, from, to] : {std::tuple{"first", &a, &a}, std::tuple{"second", &a, &b}, {"third", &b, &c}}) {
    AccessList access{write(*to)};
    if (from != to)
      access.push_back(read(*from));
    bench.engine.push(
        {.name = std::string(name), .access = access, .priority = Priority::background}, bench.says(name));
  }
  bench.engine.push({.name = "urgent", .access = {read(c)}, .priority = Priority::urgent}, bench.says("urgent"));
  bench.run();
  CHECK(bench.order.size() == 104);
  CHECK(bench.place("urgent") <= 5);
  CHECK(bench.place("first") < bench.place("second"));
  CHECK(bench.place("second") < bench.place("third"));
}

TEST_CASE("T16: a task that is urged twice leaves no urgency behind where it waited") {
  Bench bench;
  const Var x = bench.engine.new_var(), y = bench.engine.new_var();
  bench.noise(Priority::normal, 400);
  bench.engine.push({.name = "holder", .access = {write(y)}, .priority = Priority::background}, bench.says("holder"));
  bench.engine.push(
      {.name = "link", .access = {write(y), write(x)}, .priority = Priority::background}, bench.says("link"));
  bench.engine.push({.name = "high", .access = {write(x)}, .priority = Priority::high}, bench.says("high"));
  bench.engine.push({.name = "urgent", .access = {write(x)}, .priority = Priority::urgent}, bench.says("urgent"));
  constexpr int k_after = 50;
  for (int i = 0; i < k_after; ++i)
    bench.engine.push({.name = "after", .access = {write(y)}, .priority = Priority::background}, bench.says("after"));
  bench.run();
  CHECK(bench.place("urgent") <= 5);
  CHECK(bench.last_place("after") > 4 + k_after + 8);  // they let others between
}

TEST_CASE("T16: under load, with many urgent tasks behind others, each task runs once") {
  for (const CpuMode policy : k_all) {
    Engine engine({.workers = 3, .cpu_policy = policy});
    std::vector<Var> vars(8);
    for (Var& var : vars)
      var = engine.new_var();
    std::vector<int> runs(20000, 0);
    std::vector<std::thread> pushers;
    for (int p = 0; p < 2; ++p) {
      pushers.emplace_back([&, p] {
        for (int i = p; i < 20000; i += 2) {
          const auto priority = static_cast<Priority>(i * 7 % 11 % 4);
          const auto one = static_cast<std::size_t>(i * 31 % 8), two = static_cast<std::size_t>(i * 17 % 8);
          engine.push(
              {.name = "task", .access = {write(vars[one]), read(vars[two])}, .priority = priority},
              [&runs, i] { ++runs[static_cast<std::size_t>(i)]; });
        }
      });
    }
    for (std::thread& pusher : pushers)
      pusher.join();
    engine.wait_all();
    CHECK((runs == std::vector<int>(20000, 1)));
  }
}

// -- Commuting tasks --

TEST_CASE("T16: of tasks that wait for their turn the most urgent comes first, also one that became so meanwhile") {
  Bench bench;
  const Var x = bench.engine.new_var(), y = bench.engine.new_var();
  const auto member = [&](const char* name, Priority priority) {
    bench.engine.push({.name = "member", .access = {commute(x)}, .priority = priority}, bench.says(name));
  };
  member("first", Priority::normal);  // it has its turn, and waits for the worker
  member("background", Priority::background);
  bench.engine.push(
      {.name = "lifted", .access = {commute(x), write(y)}, .priority = Priority::background}, bench.says("lifted"));
  member("normal", Priority::normal);
  member("high", Priority::high);
  bench.engine.push({.name = "urgent reader", .access = {read(y)}, .priority = Priority::urgent}, bench.says("reader"));
  bench.run();
  CHECK(bench.order == std::vector<std::string>{"first", "lifted", "reader", "high", "normal", "background"});
}

TEST_CASE("T16: who has a turn that an urgent task waits for is lifted, and a whole run in front of an urgent task") {
  const bool commutes = GENERATE(true, false);
  CAPTURE(commutes);
  Bench bench;
  const Var x = bench.engine.new_var(), late = bench.engine.new_var();
  bench.noise(Priority::normal, 200);
  const int members = commutes ? 1 : 50;  // more than one push raises
  for (int i = 0; i < members; ++i)
    bench.engine.push(
        {.name = "member", .access = {commute(x)}, .priority = Priority::background}, bench.says("member"));
  bench.engine.push(
      {.name = "urgent", .access = {commutes ? commute(x) : write(x)}, .priority = Priority::urgent},
      bench.says("urgent"));
  bench.run();
  CHECK(bench.place("urgent") <= members + 1 + members / 32);
  CHECK(bench.place("urgent") >= bench.place("member") + 1);
}

TEST_CASE("T16: what a run waits for that is not granted yet is lifted for its urgent member") {
  Bench bench;
  const Var x = bench.engine.new_var(), late = bench.engine.new_var();
  bench.noise(Priority::normal, 100);
  for (int i = 0; i < 20; ++i)
    bench.engine.push({.name = "link", .access = {write(x)}, .priority = Priority::background}, bench.says("link"));
  bench.engine.push({.name = "other", .access = {commute(x)}, .priority = Priority::background}, bench.says("other"));
  bench.engine.push({.name = "urgent", .access = {commute(x)}, .priority = Priority::urgent}, bench.says("urgent"));
  bench.run();
  CHECK(bench.order.size() == 122);
  CHECK(bench.place("urgent") <= 23);
}

TEST_CASE("T16: an urgent task that comes to its turn late lifts who has it") {
  Bench bench;
  const Var x = bench.engine.new_var(), late = bench.engine.new_var();
  bench.engine.push({.name = "late", .access = {write(late)}, .priority = Priority::urgent}, bench.says("late"));
  bench.engine.push(
      {.name = "urgent", .access = {commute(x), read(late)}, .priority = Priority::urgent}, bench.says("urgent"));
  bench.engine.push({.name = "holder", .access = {commute(x)}, .priority = Priority::background}, bench.says("holder"));
  bench.noise(Priority::normal, 100);
  bench.run();
  CHECK(bench.place("urgent") <= 3);
  CHECK(bench.place("holder") < bench.place("urgent"));
}
