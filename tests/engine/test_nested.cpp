// Pushes and waits from inside tasks.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Where the stack stands, roughly. Not a local's address: AddressSanitizer may keep those elsewhere.
std::intptr_t stack_mark() {
  return reinterpret_cast<std::intptr_t>(__builtin_frame_address(0));
}

/// Pushes itself until `depth` is used up.
struct Descent {
  Engine& engine;
  Var var;
  int depth;
  std::vector<std::intptr_t> marks{};
  Gate bottom{};

  void step() {
    marks.push_back(stack_mark());
    if (--depth == 0)
      return bottom.open();
    engine.push({.name = "deeper", .access = {write(var)}}, [this] { step(); });
  }
};

}  // namespace

TEST_CASE("T26: tasks push 1000 deep without growing the stack") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 1, .cpu_policy = policy});
    Descent descent{.engine = engine, .var = engine.new_var(), .depth = 1000};
    engine.push({.name = "top", .access = {write(descent.var)}}, [&] { descent.step(); });
    REQUIRE(descent.bottom.wait());
    engine.wait(descent.var);
    CHECK(descent.marks.size() == 1000);
    const auto [lowest, highest] = std::minmax_element(descent.marks.begin(), descent.marks.end());
    CHECK(*highest - *lowest < 16 * 1024);
  }
}

TEST_CASE("T26: one task pushes 1000 wide, and its children run after it on the Var that it holds") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 4, .cpu_policy = policy});
    Var held = engine.new_var(), sum = engine.new_var();
    bool parent_done = false;
    int early = 0, count = 0;
    engine.push({.name = "parent", .access = {write(held)}}, [&] {
      for (int i = 0; i < 1000; ++i) {
        engine.push({.name = "child", .access = {read(held), write(sum)}}, [&] {
          early += parent_done ? 0 : 1;
          ++count;
        });
      }
      parent_done = true;
    });
    engine.wait(held);
    engine.wait(sum);
    CHECK(early == 0);
    CHECK(count == 1000);
  }
}

TEST_CASE("T35: nested pushes take their places in the order of the pushes, the same under every policy") {
  std::vector<std::vector<int>> orders;
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var x = engine.new_var();
    std::vector<int> order;
    Gate all_pushed;
    engine.push({.name = "outer", .access = {write(x)}}, [&] {
      order.push_back(0);
      for (int i = 1; i <= 3; ++i) {
        engine.push({.name = "inner", .access = {write(x)}}, [&, i] {
          order.push_back(i);
          engine.push({.name = "innermost", .access = {write(x)}}, [&, i] {
            order.push_back(10 * i);
            if (i == 3)
              all_pushed.open();
          });
        });
      }
    });
    REQUIRE(all_pushed.wait());
    engine.wait(x);
    orders.push_back(order);
  }
  CHECK(orders[0] == std::vector<int>{0, 1, 2, 3, 10, 20, 30});
  CHECK(orders[0] == orders[1]);
}

TEST_CASE("A task may wait for what it does not hold") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  int seen = 0, value = 0;
  engine.push({.name = "waits", .access = {write(y)}}, [&] {
    engine.push({.name = "produces", .access = {write(x)}}, [&] { value = 3; });
    engine.wait(x);
    seen = value;
  });
  engine.wait(y);
  CHECK(seen == 3);
}

TEST_CASE("T29: as many tasks as workers may block on a task pushed after them") {
  for (int workers : {1, 2}) {
    Engine engine({.workers = workers});
    Var x = engine.new_var();
    Gate gate;
    OpensAtEnd opens(gate);
    engine.push({.name = "hold", .access = {write(x)}}, [gate] { gate.wait(); });
    REQUIRE(gate.reached());
    std::atomic<int> waiters{0}, value{0}, seen{0};
    for (int i = 0; i < workers; ++i) {
      engine.push({.name = "blocks"}, [&] {
        Var own = engine.new_var();
        engine.push({.name = "later", .access = {read(x), write(own)}}, [&] { value = 9; });
        ++waiters;
        engine.wait(own);
        seen += value == 9 ? 1 : 0;
      });
    }
    gate.open();
    engine.wait_all();
    CHECK(seen == workers);
  }
}

TEST_CASE("T27: a task that waits for a Var it holds itself is told so instead of hanging") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  bool refused = false;
  engine.push({.name = "waits for itself", .access = {write(x)}}, [&] {
    engine.push({.name = "child", .access = {write(x)}}, [] {});
    try {
      engine.wait(x);
    } catch (const Error&) {
      refused = true;
    }
  });
  CHECK_NOTHROW(engine.wait(x));
  CHECK(refused);
}

TEST_CASE("Many threads wait for one Var and for their own") {
  Engine engine({.workers = 2});
  Var shared = engine.new_var();
  int value = 0;
  const int rounds = scaled(400);
  std::atomic<int> early{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      Var own = engine.new_var();
      int mine = 0;
      for (int i = 1; i <= rounds; ++i) {
        engine.push({.name = "shared", .access = {write(shared)}}, [&] { ++value; });
        engine.push({.name = "own", .access = {read(shared), write(own)}}, [&] { ++mine; });
        engine.wait(own);
        early += mine == i ? 0 : 1;
        engine.wait(i % 2 == 0 ? read(shared) : write(shared));
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  engine.wait(shared);
  CHECK(early == 0);
  CHECK(value == 8 * rounds);
}

TEST_CASE("wait(v) does not wait for readers, wait(write(v)) does") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  std::atomic<bool> reader_done{false};
  engine.push({.name = "reader", .access = {read(x)}}, [&, gate] {
    gate.wait();
    reader_done = true;
  });
  REQUIRE(gate.reached());
  engine.wait(x);
  CHECK(gate.inside() == 1);
  bool done_at_return = false;
  std::thread waiter([&] {
    engine.wait(write(x));
    done_at_return = reader_done;
  });
  gate.open();
  waiter.join();
  CHECK(done_at_return);
}

TEST_CASE("wait_all covers what was pushed before it and ends though other threads go on pushing") {
  Engine engine({.workers = 2});
  std::atomic<bool> enough{false};
  std::vector<std::thread> pushers;
  for (int t = 0; t < 3; ++t) {
    pushers.emplace_back([&] {
      Var own = engine.new_var();
      for (int i = 0; !enough; ++i) {
        engine.push({.name = "stream of work", .access = {write(own)}}, [] {});
        if (i % 64 == 0)
          engine.wait(own);
      }
    });
  }
  Var mine = engine.new_var();
  int value = 0;
  for (int round = 1; round <= 20; ++round) {
    for (int i = 0; i < 50; ++i)
      engine.push({.name = "mine", .access = {write(mine)}}, [&] { ++value; });
    engine.wait_all();
    CHECK(value == 50 * round);
  }
  enough = true;
  for (std::thread& pusher : pushers)
    pusher.join();
}

TEST_CASE("wait_all from several threads at once") {
  Engine engine({.workers = 2});
  std::atomic<int> short_counts{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < scaled(200); ++round) {
        std::atomic<int> count{0};
        for (int i = 0; i < 10; ++i)
          engine.push({.name = "count"}, [&] { ++count; });
        engine.wait_all();
        short_counts += count == 10 ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(short_counts == 0);
}

TEST_CASE("T34: pushers may hold a mutex across push that bodies take") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  std::mutex mutex;
  int pushed = 0, run = 0;
  auto pusher = [&] {
    for (int i = 0; i < scaled(10'000); ++i) {
      const std::lock_guard hold(mutex);
      ++pushed;
      engine.push({.name = "locks", .access = {i % 2 == 0 ? read(x) : write(x)}}, [&] {
        const std::lock_guard hold(mutex);
        ++run;
      });
    }
  };
  std::thread other(pusher);
  pusher();
  other.join();
  engine.wait_all();
  CHECK(run == pushed);
}
