// Vars that are read much: counted in several places, frozen, and back.
#include <atomic>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/engine/detail/var_core.h>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

bool gate_open(const Var& var) {
  return var.core()->gate_open.load();
}

}  // namespace

TEST_CASE("a Var that is read often lets readers in by its gate, and a writer waits for them all") {
  Engine engine({.workers = 4, .hot_reads = 8});
  Var hot = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  std::atomic<int> reading{0}, read_before_write{-1};
  for (int i = 0; i < 100; ++i)
    engine.push({.name = "reader", .access = {read(hot)}}, [&, gate] {
      gate.wait();
      ++reading;
    });
  CHECK(gate_open(hot));
  engine.push({.name = "writer", .access = {write(hot)}}, [&] { read_before_write = reading.load(); });
  CHECK_FALSE(gate_open(hot));
  engine.push({.name = "late reader", .access = {read(hot)}}, [&] { ++reading; });
  gate.open();
  engine.wait_all();
  CHECK(read_before_write == 100);
  CHECK(reading == 101);
}

TEST_CASE("readers by the gate from many threads, writers between: each writer is alone") {
  for (int hot_reads : {1, 3}) {
    Engine engine({.workers = 3, .hot_reads = hot_reads});
    Var hot = engine.new_var();
    std::atomic<int> readers{0}, writers{0}, wrong{0};
    std::uint64_t value = 0;
    std::vector<std::thread> pushers;
    for (int p = 0; p < 4; ++p) {
      pushers.emplace_back([&, p] {
        Var own = engine.new_var();
        for (int i = 0; i < 3000; ++i) {
          if (i % 37 == p) {
            engine.push({.name = "writer", .access = {write(hot)}}, [&] {
              wrong += writers.fetch_add(1) != 0 || readers.load() != 0 ? 1 : 0;
              value += 1;
              writers.fetch_sub(1);
            });
          } else {
            engine.push({.name = "reader", .access = {read(hot), write(own)}}, [&] {
              readers.fetch_add(1);
              wrong += writers.load() != 0 ? 1 : 0;
              readers.fetch_sub(1);
            });
          }
        }
      });
    }
    for (std::thread& pusher : pushers)
      pusher.join();
    engine.wait_all();
    CHECK(wrong == 0);
    CHECK(value == hot.version());
    CHECK(value > 300);
  }
}

TEST_CASE("crossing pushes on two hot Vars never block each other") {
  Engine engine({.workers = 2, .hot_reads = 1});
  Var a = engine.new_var(), b = engine.new_var();
  std::atomic<int> done{0};
  auto push_all = [&](const Var& reads, const Var& writes) {
    for (int i = 0; i < 20000; ++i) {
      engine.push({.name = "cross", .access = {read(reads), write(writes)}}, [&] { ++done; });
      engine.push({.name = "read both", .access = {read(reads), read(writes)}}, [&] { ++done; });
    }
  };
  std::thread other([&] { push_all(b, a); });
  push_all(a, b);
  other.join();
  engine.wait_all();
  CHECK(done == 80000);
}

TEST_CASE("a frozen Var refuses writers, after those that were pushed before, until it is unfrozen") {
  Engine engine({.workers = 2, .hot_reads = 0});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  int value = 0;
  std::atomic<int> seen{0};
  engine.push({.name = "earlier writer", .access = {write(x)}}, [&, gate] {
    gate.wait();
    value = 7;
  });
  engine.freeze(x);
  CHECK_THAT(
      text_of_error([&] { engine.push({.name = "too late", .access = {write(x)}}, [] {}); }), contains("too late"));
  CHECK_THROWS_AS(engine.push({.name = "too late", .access = {out(x)}}, [] {}), ValueError);
  for (int i = 0; i < 10; ++i)
    engine.push({.name = "reader", .access = {read(x)}}, [&] { seen += value; });
  gate.open();
  engine.wait_all();
  CHECK(seen == 70);
  CHECK(gate_open(x));
  CHECK(x.version() == 1);
  for (int i = 0; i < 10; ++i)
    engine.push({.name = "reader", .access = {read(x)}}, [&] { seen += value; });
  engine.unfreeze(x);
  engine.push({.name = "writer", .access = {write(x)}}, [&] { value = 1; });
  engine.wait(x);
  CHECK(seen == 140);
  CHECK(value == 1);
}

TEST_CASE("hot and frozen Vars retire like any other") {
  struct Hook final : RetireHook {
    std::atomic<int> calls{0};
    void on_retire(const PositionSet&) noexcept override { ++calls; }
  } hook;
  Engine engine({.workers = 2, .hot_reads = 2});
  for (int i = 0; i < 50; ++i) {
    Var x = engine.new_var({.on_retire = &hook});
    if (i % 2 == 0)
      engine.freeze(x);
    for (int k = 0; k < 20; ++k)
      engine.push({.name = "reader", .access = {read(x)}}, [] {});
  }
  engine.wait_all();
  CHECK(eventually([&] { return hook.calls == 50; }));
}
