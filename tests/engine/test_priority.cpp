// Priorities are accepted everywhere and order what is ready.
#include <algorithm>
#include <functional>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// The order of classes between which property P holds: high and normal count as one.
int band(Priority priority) {
  return priority == Priority::urgent ? 0 : priority == Priority::background ? 2 : 1;
}

}  // namespace

TEST_CASE("T15: one worker runs ready tasks class by class: urgent, then high and normal, then background") {
  Engine engine({.workers = 1});
  Gate gate;
  OpensAtEnd opens(gate);
  std::vector<int> bands;
  engine.push({.name = "hold", .priority = Priority::urgent}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  const Priority classes[] = {Priority::background, Priority::normal, Priority::urgent, Priority::high};
  for (int i = 0; i < 32; ++i) {
    const Priority priority = classes[(i + i / 4) % 4];
    engine.push({.name = "work", .priority = priority}, [&bands, priority] { bands.push_back(band(priority)); });
  }
  gate.open();
  engine.wait_all();
  CHECK(bands.size() == 32);
  CHECK(std::is_sorted(bands.begin(), bands.end()));
}

TEST_CASE("T15: tasks that become ready through their Vars while the worker is held keep the order of classes") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  std::vector<int> bands;
  engine.push({.name = "hold", .access = {write(x)}}, [gate] { gate.wait(); });
  const Priority classes[] = {Priority::background, Priority::normal, Priority::urgent};
  for (int i = 0; i < 24; ++i) {
    const Priority priority = classes[i % 3];
    engine.push({.name = "reader", .access = {read(x)}, .priority = priority}, [&bands, priority] {
      bands.push_back(band(priority));
    });
  }
  gate.open();
  engine.wait_all();
  CHECK(bands.size() == 24);
  CHECK(std::is_sorted(bands.begin(), bands.end()));
}

TEST_CASE("Tasks of one class run in push order on one worker") {
  Engine engine({.workers = 1});
  Gate gate;
  OpensAtEnd opens(gate);
  std::vector<int> order;
  engine.push({.name = "hold"}, [gate] { gate.wait(); });
  for (int i = 0; i < 40; ++i)
    engine.push({.name = "work"}, [&order, i] { order.push_back(i); });
  gate.open();
  engine.wait_all();
  CHECK(order.size() == 40);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("T14: a chain whose links run next leaves its worker to the ring after 16 of them") {
  constexpr int k_links = 200;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  int links = 0, before = -1;
  engine.push({.name = "starts"}, [&] {  // what a body pushes lies in its worker's ring
    for (int i = 0; i < k_links; ++i)
      engine.push({.name = "link", .access = {write(x)}}, [&] { ++links; });
    engine.push({.name = "beside"}, [&] { before = links; });
  });
  engine.wait_all();
  CHECK(links == k_links);
  CHECK(before >= 0);
  CHECK(before <= 17);
}

TEST_CASE("T14: background tasks run at last, though urgent ones keep coming") {
  Engine engine({.workers = 1});
  std::atomic<bool> background_ran{false};
  std::atomic<int> urgent_runs{0};
  std::function<void()> again = [&] {
    ++urgent_runs;
    if (!background_ran && urgent_runs < 1'000'000)
      engine.push({.name = "urgent", .priority = Priority::urgent}, [&] { again(); });
  };
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "hold"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  for (int i = 0; i < 4; ++i)
    engine.push({.name = "urgent", .priority = Priority::urgent}, [&] { again(); });
  engine.push({.name = "background", .priority = Priority::background}, [&] { background_ran = true; });
  gate.open();
  CHECK(eventually([&] { return background_ran.load(); }));
  engine.stop();
  CHECK(urgent_runs < 1'000'000);
}

TEST_CASE("A class never overrides the order that Vars demand") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var x = engine.new_var();
    std::vector<int> order;
    const Priority classes[] = {Priority::background, Priority::normal, Priority::high, Priority::urgent};
    for (int i = 0; i < 400; ++i) {
      const Priority priority = classes[i % 4];
      engine.push({.name = "append", .access = {write(x)}, .priority = priority}, [&order, i] { order.push_back(i); });
    }
    engine.wait(x);
    CHECK(order.size() == 400);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}
