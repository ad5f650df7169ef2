// Falling asleep and being woken: no wake-up is lost, whoever sleeps.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <pthread.h>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Clock = std::chrono::steady_clock;

void spin_until(Clock::time_point end) {
  while (Clock::now() < end) {
  }
}

/// One engine, tasks pushed to it one at a time.
struct Pushes {
  explicit Pushes(int workers) : engine({.workers = workers}) {}

  Engine engine;
  std::atomic<int> runs{0};
  std::atomic<pthread_t> worker{};
  int pushed = 0;
  std::uint32_t random = 12345;

  /// False if the task was never run: the wake-up was lost.
  bool push_one() {
    engine.push({.name = "one"}, [this] {
      worker.store(pthread_self(), std::memory_order_relaxed);
      runs.fetch_add(1, std::memory_order_release);
    });
    ++pushed;
    for (int looks = 0; looks < 2000; ++looks) {
      if (runs.load(std::memory_order_acquire) == pushed)
        return true;
    }
    return eventually([&] { return runs.load() == pushed; });
  }

  /// Below `limit`.
  std::uint64_t draw(std::uint64_t limit) {
    random = random * 1664525 + 1013904223;
    return std::uint64_t{random} * limit >> 32;
  }

  /// How long the worker looks for work before it sleeps: until its own clock stands still.
  std::chrono::nanoseconds time_to_sleep() {
    std::vector<std::chrono::nanoseconds> seen;
    for (int i = 0; i < 15; ++i) {
      push_one();
      const auto began = Clock::now();
      for (auto now = began; now < began + std::chrono::milliseconds(20);) {
        const auto used = worker_clock();
        spin_until(now + std::chrono::microseconds(20));
        if (worker_clock() == used)
          break;
        now = Clock::now();
      }
      seen.push_back(Clock::now() - began);
    }
    std::sort(seen.begin(), seen.end());
    return seen[seen.size() / 2];
  }

 private:
  std::chrono::nanoseconds worker_clock() const {
    clockid_t clock{};
    timespec time{};
    pthread_getcpuclockid(worker, &clock);
    clock_gettime(clock, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
};

// At any moment after the last task: while the worker ends it, runs on, looks for work.
void push_at_any_moment(int workers, int rounds) {
  Pushes pushes(workers);
  bool lost = false;
  for (int i = 0; i < rounds && !lost; ++i) {
    lost = !pushes.push_one();
    for (std::uint64_t spin = pushes.draw(1 << 15) >> pushes.draw(8); spin > 0; --spin)
      pushes.runs.load(std::memory_order_acquire);
  }
  CHECK_FALSE(lost);
  CHECK(pushes.runs == pushes.pushed);
}

// About when the only worker falls asleep, an eighth before and after; measured anew now and then.
void push_while_falling_asleep(int rounds) {
  Pushes pushes(1);
  bool lost = false;
  std::chrono::nanoseconds sleeps_after{};
  for (int i = 0; i < rounds && !lost; ++i) {
    if (i % 1000 == 0)
      sleeps_after = pushes.time_to_sleep();
    const auto quarter = static_cast<std::uint64_t>(sleeps_after.count() / 4 + 1);
    lost = !pushes.push_one();
    spin_until(
        Clock::now() + sleeps_after * 7 / 8 +
        std::chrono::nanoseconds(static_cast<std::int64_t>(pushes.draw(quarter))));
  }
  CHECK_FALSE(lost);
  CHECK(pushes.runs == pushes.pushed);
}

}  // namespace

TEST_CASE("T7: a task that is pushed at any moment of a worker is run") {
  push_at_any_moment(1, scaled(500'000));
  push_at_any_moment(3, scaled(500'000));
}

TEST_CASE("T7: a task that is pushed while its only worker falls asleep is run") {
  push_while_falling_asleep(scaled(20'000));
}

// In parts, so that the watchdog sees an end now and then.
TEMPLATE_TEST_CASE_SIG(
    "T7: no wake-up is lost in 10 million rounds", "[.long]", ((int Part), Part), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9) {
  push_at_any_moment(1 + Part % 4, scaled(1'000'000));
  push_while_falling_asleep(scaled(50'000));
}

TEST_CASE("T7: wait_all is woken by the last task, wherever that ran") {
  for (int round = 0; round < scaled(5'000); ++round) {
    Engine engine({.workers = 1 + round % 3});
    Var x = engine.new_var();
    std::atomic<int> runs{0};
    for (int i = 0; i < 1 + round % 5; ++i)
      engine.push({.name = "one", .access = {write(x)}}, [&] { ++runs; });
    engine.wait_all();
    REQUIRE(runs == 1 + round % 5);
    if (round % 100 != 0)
      continue;
    for (int i = 0; i < 200; ++i) {  // the same engine again and again
      engine.push({.name = "one"}, [&] { ++runs; });
      engine.wait_all();
    }
    REQUIRE(runs == 1 + round % 5 + 200);
  }
}

TEST_CASE("wait_all is woken by a task that runs on another engine's worker") {
  for (int round = 0; round < 20; ++round) {
    Engine pool({.workers = 1}), serial({.cpu_policy = CpuMode::serial});
    Gate gate;
    OpensAtEnd opens(gate);
    std::atomic<bool> ran{false};
    pool.push({.name = "outer"}, [&, gate] {
      serial.push({.name = "inner"}, [&, gate] {
        gate.wait();
        ran = true;
      });
    });
    REQUIRE(gate.reached());
    std::atomic<bool> waits{false}, over{false};
    std::thread waiter([&] {
      waits = true;
      serial.wait_all();
      over = true;
    });
    eventually([&] { return waits.load(); });
    for (int i = 0; i < 1000; ++i)
      std::this_thread::yield();  // the waiter sleeps by now, most likely; it must return in any case
    gate.open();
    CHECK(eventually([&] { return over.load(); }));
    CHECK(ran);
    waiter.join();
    pool.wait_all();  // its worker is still inside the other's push
  }
}

TEST_CASE("wait_all is woken by a task that an attached thread ran") {
  for (int round = 0; round < 20; ++round) {
    Engine engine({.workers = 1});
    Gate busy, own;
    OpensAtEnd opens(busy), opens_too(own);
    engine.push({.name = "keeps the worker busy"}, [busy] { busy.wait(); });
    REQUIRE(busy.reached());
    std::atomic<bool> waits{false}, over{false};
    std::thread attached([&] {
      AttachScope works(engine);
      engine.push({.name = "runs here"}, [own] { own.wait(); }).wait();
    });
    REQUIRE(own.reached());
    std::thread waiter([&] {
      waits = true;
      engine.wait_all();
      over = true;
    });
    eventually([&] { return waits.load(); });
    busy.open();
    for (int i = 0; i < 2000; ++i)
      std::this_thread::yield();  // the worker sleeps by now, most likely
    own.open();
    CHECK(eventually([&] { return over.load(); }));
    attached.join();
    waiter.join();
  }
}
