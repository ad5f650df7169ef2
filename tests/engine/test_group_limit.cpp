// How many tasks of a group run at a time, and groups under load.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>
#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/expect.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

long fibonacci(Engine& engine, int n) {
  if (n < 2)
    return n;
  long first = 0, second = 0;
  TaskHandle one = engine.push({.name = "fibonacci"}, [&] { first = fibonacci(engine, n - 1); });
  TaskHandle other = engine.push({.name = "fibonacci"}, [&] { second = fibonacci(engine, n - 2); });
  one.wait();
  other.wait();
  return first + second;
}

/// An executor whose handlers run when the test says so, on its thread.
class ByHand {
 public:
  ExternalExecutor executor() {
    return {.post = [this](std::function<void()> work) {
      const std::lock_guard hold(mutex_);
      posted_.push_back(std::move(work));
    }};
  }
  /// One drain. False if none was posted.
  bool run_one() {
    std::function<void()> work;
    {
      const std::lock_guard hold(mutex_);
      if (posted_.empty())
        return false;
      work = std::move(posted_.front());
      posted_.pop_front();
    }
    work();
    return true;
  }
  void run_all() {
    while (run_one()) {
    }
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
};

void take_a_drain() {  // which ends after 100 us
  std::this_thread::sleep_for(std::chrono::microseconds(300));
}

}  // namespace

TEST_CASE("At most as many members of a group are begun as its limit says") {
  for (const CpuMode policy : k_threaded) {
    for (const int limit : {1, 2}) {
      CAPTURE(to_string(policy), limit);
      Engine engine(options_of(policy, limit + 1));
      TaskGroup group(engine, {.limit = limit});
      Peak peak;
      Gate gate;
      OpensAtEnd opens(gate);
      const int tasks = scaled(400);
      for (int i = 0; i < tasks; ++i) {
        group.push({.name = "member"}, [&peak, gate] {
          peak.enter();
          gate.wait();
          peak.leave();
        });
      }
      CHECK(gate.reached(limit));  // as many do run together
      // The one worker that is left would come to another member first.
      engine.push({.name = "stranger", .priority = Priority::background}, [] {}).wait();
      CHECK(gate.inside() == limit);
      gate.open();
      group.wait();
      CHECK(peak.peak() == limit);
    }
  }
  Engine engine({.workers = 1});
  CHECK_THROWS_AS(TaskGroup(engine, {.limit = -1}), ValueError);
}

TEST_CASE("A member that waits gives its place away: a group of one at a time does not hang") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy));
    TaskGroup group(engine, {.limit = 1});
    Var x = engine.new_var();
    int order = 0;
    group.push({.name = "parent"}, [&] {
      engine.push({.name = "child", .access = {write(x)}}, [&] { order = 1; }).wait();
      order = order == 1 ? 2 : -1;
    });
    group.push({.name = "coroutine"}, [&]() -> Coroutine {
      Var y = engine.new_var();
      engine.push({.name = "its child", .access = {write(y)}}, [] {});
      co_await y;
    });
    group.wait();
    CHECK(order == 2);
  }
}

TEST_CASE("A range of a member's loop that waits gives the member's place away") {
  Engine engine({.workers = 2});
  TaskGroup group(engine, {.limit = 1});
  std::atomic<int> children{0};
  group.push({.name = "loops"}, [&] {
    parallel_for(8, 1, [&](std::int64_t, std::int64_t) { engine.push({.name = "child"}, [&] { ++children; }).wait(); });
  });
  group.wait();
  CHECK(children == 8);
}

TEST_CASE("What a limit holds back is run, skipped or cancelled like the rest") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  TaskGroup group(engine, {.limit = 1});
  Gate gate;
  OpensAtEnd opens(gate);
  group.push({.name = "first"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  bool ran = false;
  TaskHandle unwanted = group.push({.name = "unwanted"}, [&] { ran = true; });
  TaskHandle fails = group.push({.name = "fails", .access = {write(x)}}, [] { throw IndexError("on purpose"); });
  TaskHandle skipped = group.push({.name = "skipped", .access = {read(x)}}, [&] { ran = true; });
  CHECK(unwanted.cancel());
  CHECK(unwanted.status() == TaskStatus::waiting);
  gate.open();
  CHECK_THROWS_AS(group.wait(), IndexError);
  CHECK_THROWS_AS(unwanted.wait(), Cancelled);
  CHECK_THROWS_AS(skipped.wait(), IndexError);
  CHECK_FALSE(ran);
}

TEST_CASE("Groups under load: threads push to shared groups, members push, wait and fail") {
  for (const CpuMode policy : {CpuMode::pool, CpuMode::chaos_pool, CpuMode::serial}) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy, 3));
    std::vector<Var> vars;
    for (int i = 0; i < 4; ++i)
      vars.push_back(engine.new_var());
    TaskGroup free(engine), few(engine, {.limit = 2});
    std::atomic<int> ran{0}, pushed{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < scaled(400); ++i) {
          TaskGroup& group = i % 2 == 0 ? free : few;
          pushed += 2;
          group.push({.name = "outer", .access = {write(vars[static_cast<std::size_t>(i + t) % 4])}}, [&, i] {
            ++ran;
            TaskHandle child = engine.push({.name = "child"}, [&] { ++ran; });
            if (i % 8 == 0)
              child.wait();
          });
          if (i % 50 == 49)
            group.wait();
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    free.wait();
    few.wait();
    CHECK(ran == pushed);
  }
}

TEST_CASE("Recursion in a group with a limit costs a call and no thread, on workers and on an executor of one thread") {
  boost::asio::thread_pool served(1);
  for (const bool executor : {false, true}) {
    CAPTURE(executor);
    Engine engine(executor ? EngineOptions{.executor = run_on(served, 1)} : EngineOptions{.workers = 2});
    TaskGroup group(engine, {.limit = 1});
    long value = 0;
    std::atomic<int> reached{0};
    std::function<void(int)> descend = [&](int left) {
      ++reached;
      if (left > 0)
        engine.push({.name = "deeper"}, [&, left] { descend(left - 1); }).wait();
    };
    group.push({.name = "top"}, [&] { value = fibonacci(engine, 16); });
    group.push({.name = "deep"}, [&] { descend(1500); });
    group.wait();
    CHECK(value == 987);
    CHECK(reached == 1501);
    std::atomic<int> ran{0};  // no place was lost
    for (int i = 0; i < 10; ++i)
      group.push({.name = "later"}, [&] { ++ran; });
    group.wait();
    CHECK(ran == 10);
  }
}

TEST_CASE("A member that waits where no thread can be had runs its child, which has no place, itself") {
  detail::test_faults().most_workers = 0;
  bool ran = false;
  {
    Engine engine({.workers = 2});
    const AttachScope attached(engine);
    TaskGroup group(engine, {.limit = 1});
    group.push({.name = "parent"}, [&] { engine.push({.name = "child"}, [&] { ran = true; }).wait(); });
    group.wait();
  }
  detail::test_faults().most_workers = 1 << 20;
  CHECK(ran);
}

TEST_CASE(
    "A limit holds where a task that is no member waits for the group: that runs none beside the one with a place") {
  Engine engine({.workers = 3});
  TaskGroup group(engine, {.limit = 1});
  Gate gate;
  OpensAtEnd opens(gate);
  std::atomic<int> inside{0}, most{0}, looked{0};
  group.push({.name = "first"}, [&, gate] {
    ++inside;
    gate.wait();
    --inside;
  });
  REQUIRE(gate.reached());
  TaskHandle outside = engine.push({.name = "outside"}, [&] {
    for (int i = 0; i < 8; ++i) {
      group.push({.name = "member"}, [&] {
        most = std::max(most.load(), ++inside);
        --inside;
      });
    }
    ++looked;
    group.wait();
  });
  CHECK(eventually([&] { return looked == 1 && engine.counters().waits > 0; }));  // it has looked, and sleeps
  CHECK(most == 0);
  gate.open();
  outside.wait();
  CHECK(most == 1);
}

TEST_CASE("A member below a body that waits on top of it gives its place away too") {
  Engine engine({.workers = 2});
  TaskGroup group(engine, {.limit = 1});
  Gate busy, first;
  OpensAtEnd opens(busy), opens_first(first);
  TaskCompletion completion;
  Gate there;
  TaskHandle outside = engine.push({.name = "outside"}, [&](Queue queue) {
    completion = queue.complete_later();
    there.open();
  });
  REQUIRE(there.wait());
  TaskHandle above;
  group.push({.name = "below"}, [&, first] {
    first.wait();
    above.wait();
  });
  engine.push({.name = "has the other worker"}, [busy] { busy.wait(); });
  REQUIRE(first.reached());
  REQUIRE(busy.reached());
  std::atomic<bool> begun{false}, ran{false};
  above = engine.push({.name = "above"}, [&] {
    begun = true;
    outside.wait();
  });
  group.push({.name = "queued"}, [&] { ran = true; });
  first.open();
  CHECK(eventually([&] { return begun.load(); }));
  busy.open();
  CHECK(eventually([&] { return ran.load(); }));
  completion.complete();
  group.wait();
  above.wait();
}

TEST_CASE("A member that waits for another engine gives its place and its worker away") {
  Engine first({.workers = 1}), second({.workers = 1});
  TaskGroup group(first, {.limit = 1});
  std::atomic<int> ended{0};
  group.push({.name = "waits"}, [&] {
    TaskHandle queued = group.push({.name = "queued"}, [&] { ++ended; });
    second.push({.name = "between"}, [&] { queued.wait(); }).wait();
    TaskHandle next = first.push({.name = "next"}, [&] { ++ended; });
    second.push({.name = "between"}, [&] { next.wait(); });
    second.wait_all();
    ++ended;
  });
  CHECK(eventually([&] { return ended == 3; }));
  group.wait();
}

// It lies in a second queue since it became urgent, which comes to it when it has been resumed.
TEST_CASE("A coroutine of a group with a limit that is taken from another queue loses no place") {
  ByHand hand;
  Engine engine({.executor = hand.executor()});
  Var v = engine.new_var(), w = engine.new_var();
  TaskCompletion completion;
  engine.push({.name = "outside", .access = {write(v)}}, [&](Queue queue) {
    completion = queue.complete_later();
    take_a_drain();
  });
  for (int i = 0; i < 62; ++i)  // every 64th pick takes the lowest class first
    engine.push({.name = "filler"}, take_a_drain);
  hand.run_all();
  TaskGroup group(engine, {.limit = 1});
  int stretch = 0, others = 0;
  const auto coroutine = [&]() -> Coroutine {
    take_a_drain();
    stretch = 1;
    co_await v;
    stretch = 2;
  };
  group.push({.name = "coroutine", .access = {write(w)}, .priority = Priority::background}, coroutine);
  engine.push({.name = "urgent", .access = {read(w)}, .priority = Priority::urgent}, take_a_drain);
  group.push({.name = "other"}, [&] { ++others; });
  REQUIRE(hand.run_one());
  CHECK(stretch == 1);
  completion.complete();
  hand.run_all();
  CHECK(stretch == 2);
  group.push({.name = "another"}, [&] { ++others; });
  hand.run_all();
  CHECK(others == 2);
  if (others != 2)
    std::_Exit(1);  // the engine could not be stopped
}
