// Reads share, writes exclude, both in push order.
#include <numeric>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T4: as many readers as workers are inside at the same time") {
  for (int workers : {1, 2, 4, 8}) {
    Engine engine({.workers = workers});
    Var x = engine.new_var();
    Meeting meeting(workers);
    std::atomic<int> met{0};
    engine.push({.name = "fill", .access = {write(x)}}, [] {});
    for (int i = 0; i < workers; ++i)
      engine.push({.name = "meet", .access = {read(x)}}, [&met, meeting] { met += meeting.join() ? 1 : 0; });
    engine.push({.name = "fill", .access = {write(x)}}, [] {});
    engine.wait(write(x));
    CHECK(met == workers);
  }
}

TEST_CASE("A reader joins readers that are already inside") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Meeting meeting(2);
  Gate first_inside;
  bool met = false, also_met = false;
  engine.push({.name = "first", .access = {read(x)}}, [&, meeting] {
    first_inside.open();
    met = meeting.join();
  });
  REQUIRE(first_inside.wait());
  engine.push({.name = "second", .access = {read(x)}}, [&, meeting] { also_met = meeting.join(); });
  engine.wait_all();
  CHECK(met);
  CHECK(also_met);
}

TEST_CASE("T3: a writer is alone inside, whoever else wants in") {
  Engine engine({.workers = 8});
  Var x = engine.new_var();
  Peak writers, all;
  std::atomic<int> faults{0};
  const int rounds = scaled(20'000);
  for (int i = 0; i < rounds; ++i) {
    const bool writes = i % 3 == 0;
    engine.push({.name = "visit", .access = {writes ? write(x) : read(x)}}, [&, writes] {
      all.enter(writes ? 1000 : 1);
      if (writes)
        writers.enter();
      faults += all.peak() > 1000 ? 1 : 0;
      if (writes)
        writers.leave();
      all.leave(writes ? 1000 : 1);
    });
  }
  engine.wait_all();
  CHECK(faults == 0);
  CHECK(writers.peak() == 1);
  CHECK(all.peak() == 1000);
}

TEST_CASE("Writers of one Var run in push order") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 4, .cpu_policy = policy});
    Var x = engine.new_var();
    std::vector<int> order;
    const int rounds = scaled(20'000);
    for (int i = 0; i < rounds; ++i)
      engine.push({.name = "append", .access = {i % 2 == 0 ? write(x) : out(x)}}, [&order, i] { order.push_back(i); });
    engine.wait(x);
    std::vector<int> expected(rounds);
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(order == expected);
  }
}

TEST_CASE("A reader pushed behind a waiting writer sees what it wrote, though other readers are inside") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  int value = 1, before = 0, after = 0;
  engine.push({.name = "early reader", .access = {read(x)}}, [&, gate] {
    gate.wait();
    before = value;
  });
  REQUIRE(gate.reached());
  engine.push({.name = "writer", .access = {write(x)}}, [&] { value = 2; });
  engine.push({.name = "late reader", .access = {read(x)}}, [&] { after = value; });
  gate.open();
  engine.wait_all();
  CHECK(before == 1);
  CHECK(after == 2);
}

TEST_CASE("A closed gate on one Var holds up neither pushes nor tasks on other Vars") {
  Engine engine({.workers = 2});
  Var held = engine.new_var(), free = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  int behind = 0, beside = 0;
  engine.push({.name = "holder", .access = {write(held)}}, [gate] { gate.wait(); });
  for (int i = 0; i < scaled(10'000); ++i)
    engine.push({.name = "behind", .access = {write(held)}}, [&] { ++behind; });
  engine.push({.name = "beside", .access = {write(free)}}, [&] { ++beside; });
  engine.wait(free);
  CHECK(beside == 1);
  CHECK(behind == 0);
  gate.open();
  engine.wait(held);
  CHECK(behind == scaled(10'000));
}

TEST_CASE("T12: two pushers of (read A, write B) and (read B, write A) never block each other") {
  Engine engine({.workers = 2});
  Var a = engine.new_var(), b = engine.new_var();
  std::uint64_t left = 0, right = 0;
  const int rounds = scaled(200'000);
  auto pusher = [&](const Var& from, std::uint64_t& source, const Var& to, std::uint64_t& target) {
    for (int i = 0; i < rounds; ++i)
      engine.push({.name = "cross", .access = {read(from), write(to)}}, [&] { target += 1 + source % 2; });
  };
  std::thread other([&] { pusher(b, right, a, left); });
  pusher(a, left, b, right);
  other.join();
  engine.wait_all();
  CHECK(a.version() == static_cast<std::uint64_t>(rounds));
  CHECK(b.version() == static_cast<std::uint64_t>(rounds));
  CHECK(left >= static_cast<std::uint64_t>(rounds));
}

TEST_CASE("T12: three pushers of (A, C), (A, B) and (B, C) never block each other") {
  Engine engine({.workers = 2});
  Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  std::uint64_t counts[3] = {};
  const int rounds = scaled(60'000);
  auto pusher = [&](const Var& x, int i, const Var& y, int j, bool middle) {
    for (int round = 0; round < rounds; ++round) {
      AccessList list{write(x), write(y)};
      if (middle)
        list.push_back(read(b));
      engine.push({.name = "pair", .access = list}, [&counts, i, j] { ++counts[i], ++counts[j]; });
    }
  };
  std::thread first([&] { pusher(a, 0, c, 2, true); }), second([&] { pusher(a, 0, b, 1, false); });
  pusher(b, 1, c, 2, false);
  first.join();
  second.join();
  engine.wait_all();
  for (std::uint64_t count : counts)
    CHECK(count == 2 * static_cast<std::uint64_t>(rounds));
}

TEST_CASE("T11: a Var named twice counts once, and the stronger access wins") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  Peak inside;
  int value = 0;
  for (int i = 0; i < 1000; ++i) {
    const AccessList lists[] = {
        {read(x), write(x)}, {write(x), read(x)}, {write(x), write(x)}, {read(y), read(x), write(x), read(y), read(x)}};
    engine.push({.name = "twice", .access = lists[i % 4]}, [&] {
      inside.enter();
      ++value;
      inside.leave();
    });
    engine.push({.name = "read twice", .access = {read(x), read(x)}}, [] {});
  }
  engine.wait(write(x));
  CHECK(value == 1000);
  CHECK(inside.peak() == 1);
  CHECK(x.version() == 1000);
  CHECK(y.version() == 0);
}

TEST_CASE("T11: a task may touch no Var at all, or 200") {
  Engine engine({.workers = 2});
  std::atomic<int> free_runs{0};
  for (int i = 0; i < 100; ++i)
    engine.push({.name = "no Vars"}, [&] { ++free_runs; });
  std::vector<Var> vars;
  for (int i = 0; i < 200; ++i)
    vars.push_back(engine.new_var());
  int wide_runs = 0;
  std::vector<int> values(vars.size(), 0);
  for (int round = 0; round < 200; ++round) {
    AccessList all;
    for (std::size_t i = 0; i < vars.size(); ++i)
      all.push_back((i + round) % 2 == 0 ? write(vars[i]) : read(vars[i]));
    all.push_back(write(vars[0]));
    engine.push({.name = "200 Vars", .access = all}, [&] { ++wide_runs; });
    const std::size_t one = round % vars.size();
    engine.push({.name = "one Var", .access = {write(vars[one])}}, [&values, one] { ++values[one]; });
  }
  engine.wait_all();
  CHECK(free_runs == 100);
  CHECK(wide_runs == 200);
  CHECK(values == std::vector<int>(200, 1));
}

TEST_CASE("T25: a Var's version counts the tasks that wrote it and succeeded") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  CHECK(x.version() == 0);
  engine.push({.name = "write", .access = {write(x), read(y)}}, [] {});
  engine.push({.name = "read", .access = {read(x)}}, [] {});
  engine.push({.name = "out", .access = {out(x)}}, [] {});
  engine.wait(write(x));
  CHECK(x.version() == 2);
  CHECK(y.version() == 0);
  engine.push({.name = "throws", .access = {write(x)}}, [] { throw ValueError("no"); });
  engine.push({.name = "is skipped", .access = {write(x)}}, [] {});
  CHECK_THROWS_AS(engine.wait(x), ValueError);
  CHECK(x.version() == 2);
  engine.push({.name = "out", .access = {out(x)}}, [] {});
  engine.wait(x);
  CHECK(x.version() == 3);
}

TEST_CASE("Vars have ids in order of creation, a home, and compare by what they name") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var({.home = cpu(1)});
  CHECK(x.id() < y.id());
  CHECK(x.home() == cpu());
  CHECK(y.home() == cpu(1));
  Var copy = x;
  CHECK(copy == x);
  CHECK_FALSE(x == y);
  CHECK(copy.id() == x.id());
  CHECK(&x.engine() == &engine);
  CHECK(static_cast<bool>(x));
  CHECK_FALSE(static_cast<bool>(Var()));
}
