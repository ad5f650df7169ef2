// parallel_for, and libraries with teams of their own (decision 16).
#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Spends a little time without sleeping.
void spin_briefly() {
  volatile unsigned sum = 0;
  for (unsigned i = 0; i < 2000; ++i)
    sum = sum + i;
}

/// How often each index of [0, n) was visited.
struct Visits {
  explicit Visits(std::int64_t n) : counts(static_cast<std::size_t>(n)) {}
  std::vector<std::atomic<int>> counts;
  std::atomic<int> small_ranges{0}, bad_ranges{0};

  void visit(std::int64_t begin, std::int64_t end, std::int64_t grain) {
    const auto n = static_cast<std::int64_t>(counts.size());
    bad_ranges += begin < 0 || begin >= end || end > n ? 1 : 0;
    small_ranges += end - begin < grain && end != n ? 1 : 0;
    for (std::int64_t i = begin; i < end; ++i)
      ++counts[static_cast<std::size_t>(i)];
  }
  bool once_each() const {
    for (const auto& count : counts) {
      if (count != 1)
        return false;
    }
    return small_ranges == 0 && bad_ranges == 0;
  }
};

}  // namespace

TEST_CASE("parallel_for covers each index once, in ranges no smaller than the grain") {
  for (int workers : {1, 2, 5}) {
    Engine engine({.workers = workers});
    EngineScope scope(engine);
    for (std::int64_t n : {1, 2, 7, 64, 1000, 100'003}) {
      for (std::int64_t grain : {1, 3, 64, 200'000}) {
        Visits outside(n), inside(n);
        parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) { outside.visit(begin, end, grain); });
        CHECK(outside.once_each());
        engine.push({.name = "loop"}, [&] {
          parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) { inside.visit(begin, end, grain); });
        });
        engine.wait_all();
        CHECK(inside.once_each());
      }
    }
  }
}

TEST_CASE("parallel_for over nothing calls nothing") {
  bool called = false;
  for (std::int64_t n : {std::int64_t{0}, std::int64_t{-5}})
    parallel_for(n, 1, [&](std::int64_t, std::int64_t) { called = true; });
  CHECK_FALSE(called);
}

TEST_CASE("parallel_for's ranges run at the same time on idle workers") {
  Engine engine({.workers = 2});
  bool met = false;
  engine.push({.name = "loop"}, [&] {
    Meeting meeting(2);
    std::atomic<int> together{0};
    parallel_for(2, 1, [&](std::int64_t, std::int64_t) { together += meeting.join() ? 1 : 0; });
    met = together == 2;
  });
  engine.wait_all();
  CHECK(met);
}

TEST_CASE("parallel_for rethrows an exception of a range as it is, and goes on working") {
  for (int workers : {1, 2}) {
    Engine engine({.workers = workers});
    Var x = engine.new_var();
    for (int round = 0; round < 20; ++round) {
      engine.push({.name = "loop", .access = {out(x)}}, [] {
        parallel_for(1000, 1, [](std::int64_t begin, std::int64_t end) {
          if (begin <= 500 && 500 < end)
            throw std::out_of_range("at 500");
        });
      });
      expect_error<TaskFailed>(
          [&] { engine.wait(x); },
          [](const TaskFailed& error) { CHECK_THROWS_AS(error.rethrow_nested(), std::out_of_range); });
    }
    EngineScope scope(engine);
    CHECK_THROWS_AS(parallel_for(100, 1, [](std::int64_t, std::int64_t) { throw 7; }), int);
    Visits visits(100);
    parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { visits.visit(begin, end, 1); });
    CHECK(visits.once_each());
  }
}

TEST_CASE("A nested parallel_for runs on its own thread alone, and covers its indices") {
  Engine engine({.workers = 4});
  EngineScope scope(engine);
  std::atomic<int> strangers{0};
  std::atomic<std::int64_t> total{0};
  parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto here = std::this_thread::get_id();
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(100, 1, [&](std::int64_t inner_begin, std::int64_t inner_end) {
        strangers += std::this_thread::get_id() == here ? 0 : 1;
        total += inner_end - inner_begin;
      });
    }
  });
  CHECK(strangers == 0);
  CHECK(total == 6400);
}

TEST_CASE("Ranges of parallel_for know the engine that they run for, and may push") {
  Engine engine({.workers = 2});
  std::atomic<int> foreign{0}, runs{0};
  engine.push({.name = "loop"}, [&] {
    parallel_for(100, 1, [&](std::int64_t, std::int64_t) {
      foreign += &Engine::current() == &engine ? 0 : 1;
      engine.push({.name = "nested"}, [&] { ++runs; });
    });
  });
  engine.stop();
  CHECK(foreign == 0);
  CHECK(runs > 0);
}

TEST_CASE("Never more threads run than there are workers, with loops in many tasks at once") {
  for (int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    Peak running;
    for (int i = 0; i < scaled(400); ++i) {
      engine.push({.name = "loop"}, [&] {
        parallel_for(16, 1, [&](std::int64_t, std::int64_t) {
          running.enter();
          spin_briefly();
          running.leave();
        });
      });
      engine.push({.name = "plain"}, [&] {
        running.enter();
        spin_briefly();
        running.leave();
      });
    }
    engine.wait_all();
    CHECK(running.peak() <= workers);
    CHECK(running.peak() >= 1);
  }
}

TEST_CASE("parallel_for from several threads outside adds at most those threads") {
  Engine engine({.workers = 2});
  Peak running;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      EngineScope scope(engine);
      for (int round = 0; round < scaled(200); ++round) {
        Visits visits(50);
        parallel_for(50, 1, [&](std::int64_t begin, std::int64_t end) {
          running.enter();
          visits.visit(begin, end, 1);
          running.leave();
        });
        wrong += visits.once_each() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(running.peak() <= 3 + 2);
}

TEST_CASE("A task that asks for a team on an idle engine gets it, up to the number of workers") {
  auto granted = [](Engine& engine, int asked) {
    int threads = 0;
    engine.push({.name = "team", .threads = asked}, [&](Queue queue) { threads = queue.threads(); });
    engine.wait_all();
    return threads;
  };
  Engine four({.workers = 4}), single({.workers = 1});
  for (int asked : {1, 2, 3, 4, 9}) {
    // The worker of the task before may not have come to rest yet: then the engine is not idle, and we ask again.
    CHECK(eventually([&] { return granted(four, asked) == std::min(asked, 4); }));
    CHECK(granted(single, asked) == 1);
  }
}

TEST_CASE("Teams: one at a time, on one thread, and never more running threads than workers") {
  for (int workers : {2, 4}) {
    Engine engine({.workers = workers});
    Peak running, teams;
    std::atomic<int> out_of_range{0};
    std::mutex mutex;
    std::set<std::thread::id> team_threads;
    for (int i = 0; i < scaled(600); ++i) {
      const int asked = 1 + i % 5;
      engine.push({.name = "team", .threads = asked}, [&, asked](Queue queue) {
        const int granted = queue.threads();
        out_of_range += granted < 1 || granted > std::min(asked, workers) ? 1 : 0;
        running.enter(granted);
        if (granted > 1) {
          teams.enter();
          const std::lock_guard hold(mutex);
          team_threads.insert(std::this_thread::get_id());
        }
        spin_briefly();
        if (granted > 1)
          teams.leave();
        running.leave(granted);
      });
      engine.push({.name = "loop"}, [&] {
        parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
          running.enter();
          spin_briefly();
          running.leave();
        });
      });
    }
    engine.wait_all();
    CHECK(out_of_range == 0);
    CHECK(running.peak() <= workers);
    CHECK(teams.peak() <= 1);
    CHECK(team_threads.size() <= 1);
  }
}

TEST_CASE("A task that finds the team taken runs with one thread, also in another engine") {
  Engine first({.workers = 4}), second({.workers = 4});
  Gate gate;
  OpensAtEnd opens(gate);
  int holds = 0, beside = 0, elsewhere = 0;
  first.push({.name = "holds the team", .threads = 2}, [&, gate](Queue queue) {
    holds = queue.threads();
    gate.wait();
  });
  REQUIRE(gate.reached());
  Var x = first.new_var(), y = second.new_var();
  first.push({.name = "beside", .access = {write(x)}, .threads = 2}, [&](Queue q) { beside = q.threads(); });
  second.push({.name = "elsewhere", .access = {write(y)}, .threads = 2}, [&](Queue q) { elsewhere = q.threads(); });
  first.wait(x);
  second.wait(y);
  CHECK(holds == 2);
  CHECK(beside == 1);
  CHECK(elsewhere == 1);
}

TEST_CASE("A team task may fail, wait and push like any other") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  int value = 0;
  engine.push({.name = "fails", .access = {write(x)}, .threads = 2}, [] { throw ValueError("in a team"); });
  CHECK_THAT(text_of_error([&] { engine.wait(x); }), contains("in a team"));
  engine.push({.name = "waits", .access = {out(x)}, .threads = 2}, [&] {
    engine.push({.name = "nested", .access = {write(y)}}, [&] { value = 4; });
    engine.wait(y);
    ++value;
  });
  engine.wait(x);
  CHECK(value == 5);
}

TEST_CASE("a worker that a parallel_for has no range left for sleeps while others are still at theirs") {
  Engine engine({.workers = 2});
  bool slept = false;
  engine.push({.name = "loop"}, [&] {
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> helped{false};
    std::uint64_t before = 0;
    parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      if (std::this_thread::get_id() != caller) {
        before = engine.counters().parked;
        helped = true;
      } else if (eventually([&] { return helped.load(); })) {
        slept = eventually([&] { return engine.counters().parked > before; });
      }
    });
  });
  engine.wait_all();
  CHECK(slept);
}
