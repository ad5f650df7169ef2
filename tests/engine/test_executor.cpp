// CPU tasks on the application's executor: io_context, thread_pool, strand.
#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <sluice/engine/asio.h>

#include "tests/engine/dag.h"
#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

namespace asio = boost::asio;
using namespace sluice;
using namespace sluice::test;

namespace {

/// An io_context served by some threads for as long as this lives.
class Served {
 public:
  explicit Served(int threads) : work_(asio::make_work_guard(io)) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] { io.run(); });
  }
  ~Served() {
    work_.reset();
    for (std::thread& thread : threads_)
      thread.join();
  }

  asio::io_context io;

 private:
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

/// Calls `use` with every kind of executor: (executor, concurrency).
template <class Use>
void on_each_executor(Use use) {
  {
    Served served(1);
    use(run_on(served.io));
  }
  {
    Served served(4);
    use(run_on(served.io, 4));
    use(run_on(served.io, 2));
    use(run_on(asio::make_strand(served.io)));
  }
  asio::thread_pool pool(3);
  use(run_on(pool, 3));
  use(run_on(asio::any_io_executor(pool.get_executor()), 3));
}

}  // namespace

TEST_CASE("T59: random graphs on every executor give the numbers of a serial order") {
  on_each_executor([](const ExternalExecutor& executor) {
    for (int pushers : {1, 3}) {
      Engine engine({.executor = executor});
      CHECK(engine.workers() == executor.concurrency);
      const Program program = random_program(77, static_cast<std::size_t>(scaled(20'000)), 12, pushers);
      History history(program);
      std::vector<Var> vars(program.cells);
      for (Var& var : vars)
        var = engine.new_var();
      std::atomic<int> strangers{0};
      Peak peak;
      from_pushers(program, [&](std::size_t i) {
        engine.push({.name = "step", .access = access_of(program.steps[i], vars)}, [&, i] {
          peak.enter();
          strangers += executor.runs_here && !executor.runs_here() ? 1 : 0;
          run_step(program.steps[i], i, history.cells.data(), history.seen[i]);
          peak.leave();
        });
      });
      engine.wait_all();
      CHECK(not_serialisable(program, history) == "");
      CHECK(strangers == 0);
      CHECK(peak.peak() <= executor.concurrency);
    }
  });
}

TEST_CASE("T59: one handler is posted for many tasks; it runs them by priority") {
  asio::io_context io;
  std::atomic<int> posts{0};
  ExternalExecutor executor = run_on(io);
  auto post = executor.post;
  executor.post = [&, post](std::function<void()> work) {
    ++posts;
    post(std::move(work));
  };
  Engine engine({.executor = executor});
  std::vector<int> order;
  for (int i = 0; i < 20; ++i)
    engine.push({.name = "background", .priority = Priority::background}, [&] { order.push_back(3); });
  for (int i = 0; i < 20; ++i)
    engine.push({.name = "urgent", .priority = Priority::urgent}, [&] { order.push_back(0); });
  CHECK(posts == 1);
  CHECK(order.empty());
  io.run();  // and ends: an idle engine keeps no work
  CHECK(order.size() == 40);
  CHECK(std::is_sorted(order.begin(), order.end()));
  const int before = posts;
  for (int i = 0; i < 1000; ++i)
    engine.push({.name = "task"}, [&] { order.push_back(2); });
  CHECK(posts == before + 1);
  io.restart();
  io.run();
  CHECK(order.size() == 1040);
  CHECK(posts >= before + 1000 / 64);  // a handler ends after 64 tasks, so that others get their turn
}

TEST_CASE("A body that blocks on an executor of one thread lets the others run on top of it") {
  for (int claimed : {1, 3}) {  // also if more threads were promised than there are
    Served served(1);
    Engine engine({.executor = run_on(served.io, claimed)});
    Var x = engine.new_var(), y = engine.new_var();
    int value = 0, seen = 0;
    TaskHandle outer = engine.push({.name = "outer", .access = {write(y)}}, [&] {
      engine.push({.name = "inner", .access = {out(x)}}, [&] { value = 6; });
      engine.wait(x);
      seen = value;
      engine.push({.name = "by handle"}, [&] { value = 7; }).wait();
      seen += value;
    });
    outer.wait();
    CHECK(seen == 13);
  }
}

TEST_CASE("A body on top of a waiting one that waits for what that one holds gets Deadlock") {
  Served served(1);
  Engine engine({.executor = run_on(served.io)});
  Var x = engine.new_var(), y = engine.new_var();
  std::atomic<int> refused{0};
  TaskHandle below = engine.push({.name = "below", .access = {write(x)}}, [&] {
    engine
        .push(
            {.name = "on top", .access = {write(y)}},
            [&] {
              try {
                engine.wait(x);
              } catch (const Deadlock&) {
                ++refused;
              }
            })
        .wait();
  });
  CHECK_NOTHROW(below.wait());
  CHECK(refused == 1);
}

TEST_CASE("A body on top of a waiting one that waits for what comes after that one gets Deadlock, not a hang") {
  Served served(1);
  Engine engine({.executor = run_on(served.io)});
  Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var(), w = engine.new_var();
  std::atomic<int> refused{0};
  TaskHandle below = engine.push({.name = "below", .access = {write(x)}}, [&] {
    engine.push({.name = "on top", .access = {out(y)}}, [&] {
      engine.push({.name = "after below", .access = {write(x), out(w)}}, [] {});
      try {
        engine.wait(w);
      } catch (const Deadlock&) {
        ++refused;
      }
    });
    engine.push({.name = "after it", .access = {read(y), out(z)}}, [] {});
    engine.wait(z);
  });
  CHECK_NOTHROW(below.wait());
  CHECK(refused == 1);
  CHECK_NOTHROW(engine.wait(w));
}

TEST_CASE("wait_all on an executor's only thread ends though another thread is in wait_all") {
  Served served(1);
  Engine engine({.executor = run_on(served.io)});
  Gate inside, gate;
  OpensAtEnd opens(gate);
  std::atomic<int> ran{0};
  std::promise<void> ended;
  boost::asio::post(served.io, [&] {  // the application's own handler holds the thread until the other one drains
    inside.wait();
    gate.wait();
    engine.wait_all();
    ended.set_value();
  });
  for (int i = 0; i < 100; ++i)
    engine.push({.name = "count"}, [&] { ++ran; });
  std::thread other([&] {
    inside.open();
    engine.wait_all();
  });
  CHECK(eventually([&] { return gate.inside() == 1; }));
  for (int looks = 0; looks < 1000; ++looks)  // for the other one to begin
    std::this_thread::yield();
  gate.open();
  CHECK(ended.get_future().wait_for(k_patience) == std::future_status::ready);
  other.join();
  CHECK(ran == 100);
}

TEST_CASE("Many blocking bodies on an executor of several threads") {
  on_each_executor([](const ExternalExecutor& executor) {
    Engine engine({.executor = executor});
    std::atomic<int> wrong{0}, ended{0};
    const int rounds = scaled(400);
    for (int i = 0; i < rounds; ++i) {
      engine.push({.name = "blocks"}, [&] {
        Var x = engine.new_var();
        int value = 0;
        engine.push({.name = "inner", .access = {out(x)}}, [&] { value = 1; });
        engine.wait(x);
        wrong += value == 1 ? 0 : 1;
        ++ended;
      });
    }
    engine.wait_all();
    CHECK(wrong == 0);
    CHECK(ended == rounds);
  });
}

TEST_CASE("The application's own handlers may wait, and end an engine, on the executor's only thread") {
  asio::io_context io;
  int seen = 0, value = 0;
  bool destroyed = false;
  asio::post(io, [&] {
    Engine engine({.executor = run_on(io)});
    Var x = engine.new_var();
    for (int i = 0; i < 200; ++i)
      engine.push({.name = "adds", .access = {write(x)}}, [&] { ++value; });
    engine.wait(x);
    seen = value;
    for (int i = 0; i < 200; ++i)
      engine.push({.name = "adds", .access = {write(x)}}, [&] { ++value; });
    engine.wait_all();
    for (int i = 0; i < 200; ++i)
      engine.push({.name = "adds", .access = {write(x)}}, [&] { ++value; });
    engine.~Engine();
    new (&engine) Engine({.executor = run_on(io)});
    destroyed = value == 600;
  });
  io.run();  // handlers that come too late find nothing to do
  CHECK(seen == 200);
  CHECK(destroyed);
}

TEST_CASE("parallel_for on an executor covers the range once and passes exceptions on") {
  on_each_executor([](const ExternalExecutor& executor) {
    Engine engine({.executor = executor});
    constexpr std::int64_t k_items = 100'000;
    std::vector<int> hits(k_items, 0);
    Var x = engine.new_var();
    for (int round = 0; round < scaled(40); ++round) {
      engine.push({.name = "loop", .access = {write(x)}}, [&] {
        parallel_for(k_items, 100, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            ++hits[static_cast<std::size_t>(i)];
        });
      });
    }
    engine.wait(x);
    CHECK(std::all_of(hits.begin(), hits.end(), [](int n) { return n == scaled(40); }));
    engine.push({.name = "throws", .access = {write(x)}}, [] {
      parallel_for(1000, 1, [](std::int64_t, std::int64_t end) {
        if (end > 500)
          throw IndexError("in a range");
      });
    });
    CHECK_THROWS_AS(engine.wait(x), IndexError);
  });
}

namespace {

asio::awaitable<void> session(Engine& engine, Var x, int rounds, std::atomic<int>& wrong) {
  int value = 0;
  for (int i = 1; i <= rounds; ++i) {
    Var scratch = engine.new_var();
    engine.push({.name = "scratch", .access = {out(scratch)}}, [] {});
    engine.push({.name = "coroutine", .access = {write(x)}}, [&value, scratch]() -> Coroutine {
      co_await scratch;
      ++value;
    });
    co_await engine.async_wait(x, asio::use_awaitable);
    wrong += value == i ? 0 : 1;
  }
}

}  // namespace

TEST_CASE("T59: engine, coroutine bodies and awaitables on one io_context, run by 1 and by 4 threads") {
  for (int threads : {1, 4}) {
    asio::io_context io;
    Engine engine({.executor = run_on(io, threads)});
    std::atomic<int> wrong{0};
    const int rounds = scaled(500);
    for (int i = 0; i < 8; ++i)
      asio::co_spawn(io, session(engine, engine.new_var(), rounds, wrong), asio::detached);
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i)
      others.emplace_back([&] { io.run(); });
    io.run();
    for (std::thread& other : others)
      other.join();
    CHECK(wrong == 0);
    CHECK(engine.counters().retired == static_cast<std::uint64_t>(8 * 2 * rounds));
  }
}

TEST_CASE("T60: a body suspended on an executor is cancelled, or drained by the engine's end") {
  Served served(2);
  std::atomic<int> ended{0};
  {
    Engine engine({.executor = run_on(served.io, 2)});
    Var x = engine.new_var(), gated = engine.new_var();
    Gate gate, started;
    OpensAtEnd opens(gate);
    engine.push({.name = "gate", .access = {out(gated)}}, [gate] { gate.wait(); });
    REQUIRE(gate.reached());
    TaskHandle handle = engine.push({.name = "sleeper", .access = {write(x)}}, [&]() -> Coroutine {
      started.open();
      co_await gated;
    });
    REQUIRE(started.wait());
    engine.push({.name = "passes"}, [] {}).wait();  // on the one thread that is free, so the sleeper is suspended
    REQUIRE(handle.cancel());
    CHECK_THROWS_AS(handle.wait(), Cancelled);
    CHECK_THROWS_AS(engine.wait(x), Cancelled);
    engine.push({.name = "drained", .access = {out(x)}}, [&ended, gated]() -> Coroutine {
      co_await gated;
      ++ended;
    });
  }
  CHECK(ended == 1);
}

TEST_CASE("An executor excludes workers and other policies; its concurrency is at least 1") {
  asio::io_context io;
  CHECK_THROWS_AS(Engine({.workers = 2, .executor = run_on(io)}), ValueError);
  CHECK_THROWS_AS(Engine({.cpu_policy = CpuMode::serial, .executor = run_on(io)}), ValueError);
  CHECK_THROWS_AS(Engine({.executor = run_on(io, 0)}), ValueError);
}

TEST_CASE("T14: on an executor a background task runs within 64 picks, whatever else lies ready") {
  asio::io_context io;
  Engine engine({.executor = run_on(io)});
  int urgent = 0, before = -1;
  engine.push({.name = "background", .priority = Priority::background}, [&] { before = urgent; });
  for (int i = 0; i < 200; ++i)
    engine.push({.name = "urgent", .priority = Priority::urgent}, [&] { ++urgent; });
  io.run();
  CHECK(urgent == 200);
  CHECK(before >= 0);
  CHECK(before < 64);
}
