// The serial policy: same results, in the thread of the pusher, before the outermost push returns.
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("Under the serial policy a task has run, in the pusher's thread, when push returns") {
  Engine engine({.cpu_policy = CpuMode::serial});
  Var x = engine.new_var();
  int value = 0;
  for (int i = 1; i <= 100; ++i) {
    std::thread::id ran_in;
    engine.push({.name = "count", .access = {write(x)}}, [&] {
      ++value;
      ran_in = std::this_thread::get_id();
    });
    CHECK(value == i);
    CHECK(ran_in == std::this_thread::get_id());
  }
  CHECK(x.version() == 100);
}

TEST_CASE("Under the serial policy nested pushes run after their parent, before the outermost push returns") {
  Engine engine({.cpu_policy = CpuMode::serial});
  std::vector<int> order;
  engine.push({.name = "parent"}, [&] {
    order.push_back(1);
    engine.push({.name = "child"}, [&] {
      order.push_back(4);
      engine.push({.name = "grandchild"}, [&] { order.push_back(6); });
    });
    order.push_back(2);
    engine.push({.name = "second child"}, [&] { order.push_back(5); });
    order.push_back(3);
  });
  CHECK(order == std::vector<int>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("Under the serial policy a failure waits for the wait, and does not leave push") {
  Engine engine({.cpu_policy = CpuMode::serial});
  Var x = engine.new_var();
  CHECK_NOTHROW(engine.push({.name = "fails", .access = {write(x)}}, [] { throw ValueError("later"); }));
  CHECK_THROWS_AS(engine.wait(x), ValueError);
}

TEST_CASE("Under the serial policy a finished task cannot be cancelled, and its handle can be waited for") {
  Engine engine({.cpu_policy = CpuMode::serial});
  TaskHandle handle = engine.push({.name = "done"}, [] {});
  CHECK_FALSE(handle.cancel());
  CHECK_NOTHROW(handle.wait());
}

TEST_CASE("Under the serial policy pushes from several threads exclude each other on a Var") {
  Engine engine({.cpu_policy = CpuMode::serial});
  Var x = engine.new_var();
  int value = 0;
  std::vector<std::thread> threads;
  const int rounds = scaled(5'000);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i)
        engine.push({.name = "count", .access = {write(x)}}, [&] { ++value; });
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  engine.wait(x);
  CHECK(value == 4 * rounds);
}

TEST_CASE("Under the serial policy a task may wait for what it pushed") {
  Engine engine({.cpu_policy = CpuMode::serial});
  Var x = engine.new_var();
  int value = 0, seen = 0;
  engine.push({.name = "waits"}, [&] {
    engine.push({.name = "produces", .access = {write(x)}}, [&] { value = 8; });
    engine.wait(x);
    seen = value;
  });
  CHECK(seen == 8);
}

TEST_CASE("Under the serial policy parallel_for and teams use the calling thread") {
  Engine engine({.cpu_policy = CpuMode::serial});
  EngineScope scope(engine);
  const auto here = std::this_thread::get_id();
  int strangers = 0, threads = 0;
  std::int64_t covered = 0;
  parallel_for(1000, 1, [&](std::int64_t begin, std::int64_t end) {
    strangers += std::this_thread::get_id() == here ? 0 : 1;
    covered += end - begin;
  });
  engine.push({.name = "team", .threads = 4}, [&](Queue queue) { threads = queue.threads(); });
  CHECK(strangers == 0);
  CHECK(covered == 1000);
  CHECK(threads == 1);
}
