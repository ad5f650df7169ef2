// Task::denormals: which bodies flush, on which threads, and what is left of it afterwards.
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>
#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/expect.h"
#include "tests/engine/policies.h"
#include "tests/support/child.h"
#include "tests/support/denormals.h"
#include "tests/support/gate.h"
#include "tests/support/variable.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// What bodies pushed one after the other through `engine` see.
struct Seen {
  bool plain_before = false, flushing = true, plain_after = false, plain_after_throw = false;
};

Seen look(Engine& engine) {
  Seen seen;
  const Var x = engine.new_var();
  engine.push({.name = "plain", .access = {write(x)}}, [&] { seen.plain_before = keeps_denormals(); });
  engine.push({.name = "flushes", .access = {write(x)}, .denormals = Denormals::flush}, [&] {
    seen.flushing = keeps_denormals();
  });
  engine.push({.name = "plain", .access = {write(x)}}, [&] { seen.plain_after = keeps_denormals(); });
  engine.wait(x);
  engine.push(
      {.name = "throws", .access = {write(x)}, .denormals = Denormals::flush}, [] { throw ValueError("on purpose"); });
  engine.push({.name = "plain", .access = {out(x)}}, [&] { seen.plain_after_throw = keeps_denormals(); });
  engine.wait(x);
  return seen;
}

void check(const Seen& seen, bool flushes) {
  CHECK(seen.plain_before);
  CHECK(seen.flushing == !(flushes && k_can_flush));
  CHECK(seen.plain_after);
  CHECK(seen.plain_after_throw);
}

}  // namespace

TEST_CASE("A body that asks for it flushes denormals; those before and behind it do not, also where it throws") {
  for (const CpuMode policy : k_all) {
    INFO(to_string(policy));
    Engine engine({.workers = 1, .cpu_policy = policy});
    check(look(engine), true);
    CHECK(keeps_denormals());
  }
  boost::asio::thread_pool threads(2);
  {
    Engine engine({.executor = run_on(threads.get_executor(), 2)});
    check(look(engine), true);
  }
  threads.join();
}

TEST_CASE("EngineOptions::denormals forbids flushing; the environment counts where the program says nothing") {
  Engine keeping({.workers = 1, .denormals = Denormals::keep});
  check(look(keeping), false);
  {
    const Variable keep("SLUICE_DENORMALS", "keep");
    Engine by_environment({.workers = 1});
    check(look(by_environment), false);
    Engine by_program({.workers = 1, .denormals = Denormals::flush});
    check(look(by_program), true);
  }
  const Variable sometimes("SLUICE_DENORMALS", "sometimes");
  CHECK_THAT(text_of_error([] { Engine wrong; }), contains("SLUICE_DENORMALS \"sometimes\" is not one of keep, flush"));
  CHECK_THROWS_AS(Engine(), ValueError);
  CHECK_NOTHROW(Engine({.workers = 1, .denormals = Denormals::keep}));
}

TEST_CASE("Workers that help a parallel_for compute as its caller does, and then as before") {
  Engine engine({.workers = 2});
  const auto both_keep = [&](Denormals wanted) {
    std::atomic<int> keeping{0}, came{0};
    engine.push({.name = "loop", .denormals = wanted}, [&] {
      const Meeting meeting(2);
      parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
        came += meeting.join() ? 1 : 0;
        keeping += keeps_denormals() ? 1 : 0;
      });
    });
    engine.wait_all();
    CHECK(came == 2);
    return keeping.load();
  };
  for (int round = 0; round < 3; ++round) {
    CHECK(both_keep(Denormals::keep) == 2);
    CHECK(both_keep(Denormals::flush) == (k_can_flush ? 0 : 2));
  }
  // A range that throws on a helper leaves it as it was.
  engine.push({.name = "throws", .denormals = Denormals::flush}, [] {
    const Meeting meeting(2);
    parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      meeting.join();
      throw ValueError("in a range");
    });
  });
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  CHECK(both_keep(Denormals::keep) == 2);
}

TEST_CASE("An executor's thread that helps a loop computes as its caller does, and then as before") {
  if (!k_can_flush)
    SLUICE_SKIP("this processor's mode is not known");
  boost::asio::io_context io;
  Engine engine({.executor = run_on(io)});
  const EngineScope scope(engine);
  std::atomic<int> keeping{0}, came{0};
  bool keeps_again = false;
  std::thread helper([&] {
    CHECK(eventually([&] {
      io.restart();
      return io.run_one() == 1;
    }));
    keeps_again = keeps_denormals();
  });
  {
    const OwnFlushing flushing;
    const Meeting meeting(2);
    parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      came += meeting.join() ? 1 : 0;
      keeping += keeps_denormals() ? 1 : 0;
    });
  }
  helper.join();
  CHECK(came == 2);
  CHECK(keeping == 0);
  CHECK(keeps_again);
}

TEST_CASE("A thread that flushes by its own will shares that with its helpers, and keeps it") {
  if (!k_can_flush)
    SLUICE_SKIP("this processor's mode is not known");
  Engine engine({.workers = 2});
  EngineScope scope(engine);
  std::atomic<int> keeping{0}, came{0};
  {
    const OwnFlushing flushing;
    const Meeting meeting(2);
    parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      came += meeting.join() ? 1 : 0;
      keeping += keeps_denormals() ? 1 : 0;
    });
    CHECK_FALSE(keeps_denormals());
  }
  CHECK(came == 2);
  CHECK(keeping == 0);
  check(look(engine), true);
}

TEST_CASE("A worker made while a body flushes does not take that over") {
  Engine engine({.workers = 2});
  Gate gate;
  OpensAtEnd opens(gate);
  bool beside_keeps = false;
  const Var x = engine.new_var(), y = engine.new_var();
  engine.push({.name = "flushes", .access = {write(x)}, .denormals = Denormals::flush}, [&, gate] {
    // Pushed from here, the task below is what the second worker is made for, by this thread.
    engine.push({.name = "beside", .access = {write(y)}}, [&] {
      beside_keeps = keeps_denormals();
      gate.open();
    });
    gate.wait();
  });
  engine.wait(x);
  engine.wait(y);
  CHECK(beside_keeps);
}

TEST_CASE("A task that runs while a flushing body waits below it on the same thread keeps denormals") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::chaos}) {
    Engine engine({.cpu_policy = policy});
    bool nested_keeps = false, outer_flushes_again = false;
    const Var x = engine.new_var(), y = engine.new_var();
    engine.push({.name = "outer", .access = {write(x)}, .denormals = Denormals::flush}, [&] {
      engine.push({.name = "nested", .access = {write(y)}}, [&] { nested_keeps = keeps_denormals(); });
      engine.wait(y);
      outer_flushes_again = !keeps_denormals();
    });
    engine.wait(x);
    CHECK(nested_keeps);
    CHECK(outer_flushes_again == k_can_flush);
  }
}

TEST_CASE("A coroutine body flushes before and after it waits, its thread in between does not") {
  Engine engine({.workers = 1});
  const Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  bool before = true, between = false, after = true;
  engine.push({.name = "waits", .access = {write(x)}, .denormals = Denormals::flush}, [&]() -> Coroutine {
    before = keeps_denormals();
    engine.push({.name = "between", .access = {write(y)}}, [&] { between = keeps_denormals(); });
    co_await read(y);
    after = keeps_denormals();
  });
  engine.wait(x);
  CHECK(before == !k_can_flush);
  CHECK(between);
  CHECK(after == !k_can_flush);
}

TEST_CASE("Teams of bodies that flush and of those that do not have threads of their own") {
  Engine engine({.workers = 2});
  const auto keeps = [&](Denormals wanted) {
    int granted = 0;
    bool keeping = false, fresh_keeps = false;
    const bool had_team = eventually([&] {
      engine.push({.name = "team", .threads = 2, .denormals = wanted}, [&](Queue queue) {
        granted = queue.threads();
        keeping = keeps_denormals();
        std::thread([&] { fresh_keeps = keeps_denormals(); }).join();  // as a library makes its team
      });
      engine.wait_all();
      return granted == 2;
    });
    CHECK(had_team);
    CHECK(keeping == fresh_keeps);
    return keeping;
  };
  for (int round = 0; round < 2; ++round) {
    CHECK(keeps(Denormals::flush) == !k_can_flush);
    CHECK(keeps(Denormals::keep));
  }
}

TEST_CASE("Where no thread can be had for a team, its task runs with one thread") {
  struct Planted {
    Planted() { detail::test_faults().no_team_threads = true; }
    ~Planted() { detail::test_faults().no_team_threads = false; }
  };
  // In a process of its own: here the team's threads live already.
  if (!runs_alone()) {
    CHECK(run_case_alone("Where no thread can be had for a team*") == 0);
    return;
  }
  Engine engine({.workers = 2});
  const auto granted = [&] {
    int threads = 0;
    engine.push({.name = "team", .threads = 2}, [&](Queue queue) { threads = queue.threads(); });
    engine.wait_all();
    return threads;
  };
  {
    const Planted planted;
    for (int round = 0; round < 20; ++round)
      CHECK(granted() == 1);
  }
  CHECK(eventually([&] { return granted() == 2; }));
}

TEST_CASE("A team computes as the threads of the engine that asks, whoever had a team before") {
  const auto keeps = [](Engine& engine) {
    bool keeping = false;
    CHECK(eventually([&] {
      int granted = 0;
      engine.push({.name = "team", .threads = 2}, [&](Queue queue) {
        granted = queue.threads();
        keeping = keeps_denormals();
      });
      engine.wait_all();
      return granted == 2;
    }));
    return keeping;
  };
  for (int round = 0; round < 2; ++round) {
    std::thread([&] {
      const OwnFlushing flushing;
      Engine engine({.workers = 2, .denormals = Denormals::keep});
      CHECK(keeps(engine) == !k_can_flush);
    }).join();
    Engine engine({.workers = 2, .denormals = Denormals::keep});
    CHECK(keeps(engine));
  }
}
