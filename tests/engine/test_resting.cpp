// Who counts as at work while a pusher rests, on whichever thread its body runs, and what a rest leaves behind.
#include <algorithm>
#include <atomic>
#include <thread>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>

#include "tests/engine/expect.h"
#include "tests/engine/in_flight.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Longer than the windows after which a standstill counts as one.
void compute_for_long() {
  const auto used = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  const auto end = used() + std::chrono::milliseconds(80);
  compute_until([&] { return used() >= end; });
}

/// Pushes tasks that compute, in a row, each with a block. The most blocks in flight that a body saw.
std::uint64_t most_of_loop(Engine& engine, const Var& order, int threads = 1) {
  std::uint64_t most = 0;
  for (int i = 0; i < 12; ++i) {
    push_holder(engine, {.name = "step", .access = {write(order)}, .threads = threads}, [&] {
      most = std::max(most, engine.counters().bytes_in_flight / k_block);
      compute_for_long();
    });
  }
  engine.wait(order);
  return most;
}

}  // namespace

TEST_CASE("Back-pressure: a body that waits for a thread that it made is at work while that one computes") {
  for (const char* name : {"sluice", "another name"}) {
    Engine engine({.workers = 2, .name = name, .max_bytes_in_flight = 4 * k_block});
    const Var order = engine.new_var();
    std::uint64_t most = 0;
    for (int i = 0; i < 12; ++i) {
      push_holder(engine, {.name = "step", .access = {write(order)}}, [&] {
        most = std::max(most, engine.counters().bytes_in_flight / k_block);
        std::thread(compute_for_long).join();
      });
    }
    engine.wait(order);
    CHECK(most <= 5);
  }
}

TEST_CASE("Back-pressure: a body on an executor's thread is at work") {
  boost::asio::thread_pool threads(1);
  {
    Engine engine({.max_bytes_in_flight = 4 * k_block, .executor = run_on(threads.get_executor(), 1)});
    CHECK(most_of_loop(engine, engine.new_var()) <= 5);
  }
  threads.join();
}

TEST_CASE("Back-pressure: a body on an attached thread is at work") {
  Engine engine({.workers = 1, .max_bytes_in_flight = 4 * k_block});
  const QuietGate gate;
  const Gate held;
  engine.push({.name = "keeps the worker"}, [gate, held] {
    held.open();
    gate.wait();
  });
  CHECK(held.wait());
  const Var order = engine.new_var();
  std::atomic<bool> over{false};
  std::thread helper([&] {
    const AttachScope attached(engine);
    while (!over)
      engine.wait(order);
  });
  CHECK(most_of_loop(engine, order) <= 5);
  over = true;
  helper.join();
  gate.open();
  engine.wait_all();
}

TEST_CASE("Back-pressure: a body that has a library's team is at work") {
  Engine engine({.workers = 2, .max_bytes_in_flight = 4 * k_block});
  CHECK(most_of_loop(engine, engine.new_var(), 2) <= 5);
}

TEST_CASE("Back-pressure: an attached thread that rests is not what it waits for") {
  Engine engine({.workers = 1, .max_bytes_in_flight = k_block});
  const QuietGate gate;
  const Gate held;
  const Var order = engine.new_var();
  std::atomic<int> done{0};
  engine.push({.name = "gate", .access = {write(order)}}, [gate, held] {
    held.open();
    gate.wait();
  });
  CHECK(held.wait());
  {
    const AttachScope attached(engine);
    // By steps of 32 MiB at least; were it at work itself, one of them would take seconds, and the gate would open.
    for (int i = 0; i < 40; ++i)
      push_holder(
          engine, {.name = "behind", .access = {write(order)}}, [&] { ++done; }, 512 * k_block);
    CHECK(done == 0);
    gate.open();
  }
  engine.wait_all();
  CHECK(done == 40);
}

TEST_CASE("Back-pressure: what was let through beyond the limit is for that standstill alone") {
  Engine engine({.workers = 1, .max_bytes_in_flight = 16 * k_block});
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    const QuietGate gate;
    const Var order = engine.new_var();
    engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
    const std::uint64_t rests = engine.counters().rests;
    int pushed = 0;
    for (; engine.counters().rests == rests && pushed < 2000; ++pushed)
      push_holder(engine, {.name = "behind", .access = {write(order)}}, [] {});
    CHECK(pushed == 18);  // 16, one beyond, and the one that rested
    gate.open();
    engine.wait_all();
  }
}

TEST_CASE("Back-pressure: a pusher that rests goes on when a worker lacks a task, whatever the others hold") {
  constexpr std::uint64_t k_huge = std::uint64_t{1} << 40;
  Engine engine({.workers = 2, .max_bytes_in_flight = k_block});
  std::atomic<bool> through{false};
  std::atomic<bool> in_time{false};
  push_holder(
      engine, {.name = "stays"}, [&] { in_time = compute_until([&] { return through.load(); }); }, k_huge);
  for (unsigned i = 1; i <= 8; ++i) {
    // Each ends when the pusher rests for it, and leaves its worker without a task.
    push_holder(
        engine,
        {.name = "ends"},
        [&, i] { compute_until([&] { return engine.counters().rests >= i || through; }); },
        k_huge);
  }
  through = true;
  engine.wait_all();
  CHECK(in_time);
}
