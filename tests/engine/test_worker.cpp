// What a body may ask of the thread that runs it: its number, scratch memory, a stand-in while it blocks.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("Bodies that run together are told different numbers of workers") {
  Engine engine({.workers = 3});
  Meeting meeting(3);
  std::mutex mutex;
  std::set<int> numbers;
  std::atomic<int> alone{0};
  for (int i = 0; i < 3; ++i) {
    engine.push({.name = "meets"}, [&](Queue queue) {
      alone += meeting.join() ? 0 : 1;
      const std::lock_guard hold(mutex);
      numbers.insert(queue.worker());
    });
  }
  engine.wait_all();
  CHECK(alone == 0);
  CHECK(numbers.size() == 3);
  CHECK(*numbers.begin() >= 0);
  CHECK(*numbers.rbegin() < 3);
}

TEST_CASE("Where no worker runs the body there is no number") {
  Engine engine({.cpu_policy = CpuMode::serial});
  int number = 0;
  engine.push({.name = "serial"}, [&](Queue queue) { number = queue.worker(); });
  engine.wait_all();
  CHECK(number == -1);
  CHECK(Queue(engine, cpu(), 1, nullptr).worker() == -1);
}

TEST_CASE("Each thread has a T of its own, which all can be summed up") {
  Engine engine({.workers = 3});
  std::atomic<int> made{0};
  WorkerLocal<int> sums([&] {
    ++made;
    return 0;
  });
  const int tasks = scaled(2000);
  for (int i = 1; i <= tasks; ++i)
    engine.push({.name = "adds"}, [&, i] { sums.local() += i; });
  engine.wait_all();
  long long sum = 0;
  int places = 0;
  sums.for_each([&](int one) {
    sum += one;
    ++places;
  });
  CHECK(sum == static_cast<long long>(tasks) * (tasks + 1) / 2);
  CHECK(places == made);
  CHECK(places >= 1);
  int& mine = sums.local();
  CHECK(&sums.local() == &mine);
}

TEST_CASE("More threads than there are places have a T each, too") {
  WorkerLocal<int> counts;
  constexpr int k_threads = 80;
  Meeting all(k_threads), done(k_threads);
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::set<const int*> seen;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&] {
      all.join();
      int& mine = counts.local();
      ++mine;
      {
        const std::lock_guard hold(mutex);
        seen.insert(&mine);
      }
      done.join();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(seen.size() == k_threads);
  int sum = 0;
  counts.for_each([&](int one) { sum += one; });
  CHECK(sum == k_threads);
}

TEST_CASE("While a body blocks in a BlockingScope another thread takes its place") {
  Engine engine({.workers = 1});
  Gate gate;
  OpensAtEnd opens(gate);
  Peak peak;
  TaskHandle blocks = engine.push({.name = "blocks"}, [&, gate] {
    {
      const BlockingScope scope;
      const BlockingScope inner;  // does nothing more
      gate.wait();
    }
    peak.enter();
    peak.leave();
  });
  REQUIRE(gate.reached());
  std::atomic<int> ran{0};
  for (int i = 0; i < 20; ++i) {
    engine.push({.name = "meanwhile"}, [&] {
      peak.enter();
      if (++ran == 10)
        gate.open();
      peak.leave();
    });
  }
  engine.wait_all();
  CHECK(ran == 20);
  CHECK(peak.peak() == 1);  // there was one permit at any time
  CHECK_NOTHROW(blocks.wait());
}

TEST_CASE("A wait inside a BlockingScope, a nested body and an outside scope do no harm") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine({.workers = policy == CpuMode::pool ? 2 : 0, .cpu_policy = policy});
    const BlockingScope outside;
    Var x = engine.new_var();
    int value = 0;
    for (int i = 0; i < 50; ++i) {
      engine.push({.name = "outer"}, [&] {
        const BlockingScope scope;
        Var y = engine.new_var();
        engine.push({.name = "inner", .access = {write(y), write(x)}}, [&] {
          const BlockingScope nested;
          ++value;
        });
        engine.wait(y);
      });
    }
    engine.wait_all();
    CHECK(value == 50);
  }
}
