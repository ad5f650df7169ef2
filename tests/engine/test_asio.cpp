// Waits through Asio: every kind of completion token, cancellation, executors, work and memory (T59).
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <sluice/engine/asio.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

namespace asio = boost::asio;
using namespace sluice;
using namespace sluice::test;

namespace {

bool is_aborted(const std::exception_ptr& error) {
  try {
    if (error != nullptr)
      std::rethrow_exception(error);
  } catch (const boost::system::system_error& system_error) {
    return system_error.code() == asio::error::operation_aborted;
  }
  return false;
}

/// Runs an io_context on some threads until it has no work left.
void run_on_threads(asio::io_context& io, int count) {
  std::vector<std::thread> threads;
  for (int i = 1; i < count; ++i)
    threads.emplace_back([&] { io.run(); });
  io.run();
  for (std::thread& thread : threads)
    thread.join();
}

/// Counts what is allocated and not yet given back.
template <class T>
struct CountingAllocator {
  using value_type = T;
  explicit CountingAllocator(std::atomic<int>& taken, std::atomic<int>& held) : taken_(&taken), held_(&held) {}
  template <class U>
  CountingAllocator(const CountingAllocator<U>& other) : taken_(other.taken_), held_(other.held_) {}  // NOLINT
  T* allocate(std::size_t n) {
    ++*taken_;
    ++*held_;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* memory, std::size_t n) {
    --*held_;
    std::allocator<T>().deallocate(memory, n);
  }
  bool operator==(const CountingAllocator&) const = default;

  std::atomic<int>*taken_, *held_;
};

}  // namespace

TEST_CASE("T59: a callback is called once, later, elsewhere") {
  Engine engine({.workers = 1});
  Held held(engine);
  Var idle = engine.new_var();
  std::atomic<int> calls{0}, with_error{0};
  const auto here = std::this_thread::get_id();
  std::atomic<bool> inside{true}, inline_call{false};
  auto callback = [&](std::exception_ptr error) {
    inline_call = inline_call || std::this_thread::get_id() == here;
    with_error += error == nullptr ? 0 : 1;
    ++calls;
  };
  engine.async_wait(idle, callback);  // nothing to wait for
  REQUIRE(eventually([&] { return calls == 1; }));
  engine.async_wait(held.var, callback);
  engine.async_wait(write(held.var), callback);
  CHECK(calls == 1);
  held.gate.open();
  REQUIRE(eventually([&] { return calls == 3; }));
  engine.stop();
  CHECK(calls == 3);
  CHECK(with_error == 0);
  CHECK_FALSE(inline_call);
}

TEST_CASE("T59: a future holds the value's arrival, or the failure as wait() would throw it") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 1, .cpu_policy = policy});
    Var good = engine.new_var(), bad = engine.new_var(), odd = engine.new_var();
    int value = 0;
    engine.push({.name = "good", .access = {out(good)}}, [&] { value = 4; });
    engine.push({.name = "bad", .access = {out(bad)}}, [] { throw OutOfMemory("none left", 1 << 20); });
    engine.push({.name = "odd", .access = {out(odd)}}, [] { throw 5; });
    engine.async_wait(good, asio::use_future).get();
    CHECK(value == 4);
    std::future<void> failure = engine.async_wait(bad, asio::use_future);
    expect_error<OutOfMemory>(
        [&] { failure.get(); },
        [](const OutOfMemory& error) {
          CHECK(error.requested() == 1 << 20);
          CHECK(error.record()->task == "bad");
        });
    CHECK_THROWS_AS(engine.async_wait(odd, asio::use_future).get(), TaskFailed);
    CHECK_NOTHROW(engine.wait_all());  // both were reported
  }
}

namespace {

asio::awaitable<int> sum_of(Engine& engine, const Var& x, const int& a, const Var& y, const int& b) {
  co_await engine.async_wait(x, asio::use_awaitable);
  co_await engine.async_wait(read(y), asio::use_awaitable);
  co_return a + b;
}

asio::awaitable<void> await_failure(Engine& engine, Var bad, bool& caught) {
  try {
    co_await engine.async_wait(bad, asio::use_awaitable);
  } catch (const ValueError&) {
    caught = true;
  }
}

}  // namespace

TEST_CASE("T59: an awaitable resumes with the value there, and throws what the writer threw") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var(), bad = engine.new_var();
  int a = 0, b = 0;
  bool caught = false;
  asio::io_context io;
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "x", .access = {out(x)}}, [&, gate] {
    gate.wait();
    a = 2;
  });
  engine.push({.name = "y", .access = {read(x), out(y)}}, [&] { b = 3 * a; });
  engine.push({.name = "bad", .access = {read(y), out(bad)}}, [] { throw ValueError("bad"); });
  std::future<int> sum = asio::co_spawn(io, sum_of(engine, x, a, y, b), asio::use_future);
  asio::co_spawn(io, await_failure(engine, bad, caught), asio::detached);
  io.poll();
  gate.open();
  io.run();
  CHECK(sum.get() == 8);
  CHECK(caught);
}

TEST_CASE("T59: a deferred wait begins when it is called, and keeps its Var alive until then") {
  Engine engine({.workers = 1});
  int value = 0;
  auto deferred = [&] {
    Var x = engine.new_var();
    engine.push({.name = "x", .access = {out(x)}}, [&] { value = 1; });
    return engine.async_wait(x, asio::deferred);
  }();
  std::move(deferred)(asio::use_future).get();
  CHECK(value == 1);
}

TEST_CASE("T59: a signal ends the wait at once; the tasks run on; a late signal changes nothing") {
  Engine engine({.workers = 1});
  Held held(engine);
  REQUIRE(held.gate.reached());
  asio::io_context io;
  asio::cancellation_signal signal;
  int calls = 0, aborted = 0;
  auto callback = [&](std::exception_ptr error) {
    ++calls;
    aborted += is_aborted(error) ? 1 : 0;
  };
  auto bound = asio::bind_executor(io, asio::bind_cancellation_slot(signal.slot(), callback));
  engine.async_wait(held.var, bound);
  CHECK(io.poll() == 0);
  signal.emit(asio::cancellation_type::terminal);
  signal.emit(asio::cancellation_type::terminal);
  io.run();
  CHECK((calls == 1 && aborted == 1));
  CHECK(held.gate.inside() == 1);
  held.gate.open();
  CHECK_NOTHROW(engine.wait(held.var));
  CHECK(held.var.version() == 1);
  io.restart();
  engine.async_wait(held.var, bound);
  signal.emit(asio::cancellation_type::terminal);  // it is on its way already, without error
  io.run();
  CHECK((calls == 2 && aborted == 1));
}

namespace {

asio::awaitable<bool> wait_or_timer(Engine& engine, Var x, asio::steady_timer& timer) {
  using namespace asio::experimental::awaitable_operators;
  auto first = co_await (engine.async_wait(x, asio::use_awaitable) || timer.async_wait(asio::use_awaitable));
  co_return first.index() == 0;
}

}  // namespace

TEST_CASE("T59: a wait races against a timer; the loser is cancelled") {
  Engine engine({.workers = 1});
  asio::io_context io;
  Held held(engine);
  asio::steady_timer soon(io, std::chrono::milliseconds(1)), never(io, std::chrono::hours(1));
  std::future<bool> timed_out = asio::co_spawn(io, wait_or_timer(engine, held.var, soon), asio::use_future);
  io.run();
  CHECK_FALSE(timed_out.get());
  held.gate.open();
  io.restart();
  std::future<bool> in_time = asio::co_spawn(io, wait_or_timer(engine, held.var, never), asio::use_future);
  io.run();
  CHECK(in_time.get());
}

TEST_CASE("T59: cancels race with completions: every handler is called once") {
  Engine engine({.workers = 2});
  asio::io_context io;
  const int rounds = scaled(20'000);
  int calls = 0, aborted = 0;
  asio::cancellation_signal signal;
  for (int i = 0; i < rounds; ++i) {
    Var x = engine.new_var();
    engine.push({.name = "x", .access = {out(x)}}, [] {});
    engine.async_wait(
        x, asio::bind_executor(io, asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr error) {
                                 ++calls;
                                 aborted += is_aborted(error) ? 1 : 0;
                               })));
    if (i % 3 == 0)
      io.poll();
    signal.emit(asio::cancellation_type::total);
  }
  io.restart();
  io.run();
  CHECK(calls == rounds);
  CHECK(aborted <= rounds);
}

TEST_CASE("T59: the handler runs on its executor, which has work until then") {
  Engine engine({.workers = 1});
  for (int threads : {1, 4}) {
    asio::io_context io;
    Held held(engine);
    bool called = false, at_home = false;
    engine.async_wait(held.var, asio::bind_executor(io, [&](std::exception_ptr) {
                        called = true;
                        at_home = io.get_executor().running_in_this_thread();
                      }));
    std::thread opener([&] {
      held.gate.reached();
      held.gate.open();
    });
    run_on_threads(io, threads);  // returns when nothing is outstanding
    CHECK((called && at_home));
    opener.join();
  }
  asio::thread_pool pool(2);
  asio::any_io_executor any = asio::make_strand(pool);
  Var x = engine.new_var();
  std::atomic<bool> right{false};
  engine.push({.name = "x", .access = {out(x)}}, [] {});
  engine.async_wait(
      x, asio::bind_executor(any, [&](std::exception_ptr) { right = pool.get_executor().running_in_this_thread(); }));
  pool.join();
  CHECK(right);
}

namespace {

/// Pushes increments and awaits each: the counter belongs to the awaitable alone.
asio::awaitable<void> client(Engine& engine, Var x, int rounds, std::atomic<int>& early, std::atomic<int>& ended) {
  int value = 0;
  for (int i = 1; i <= rounds; ++i) {
    engine.push({.name = "increment", .access = {write(x)}}, [&value] { ++value; });
    co_await engine.async_wait(x, asio::use_awaitable);
    early += value == i ? 0 : 1;
  }
  ++ended;
}

}  // namespace

TEST_CASE("T59: many awaitables on an io_context run by 1 and by 4 threads") {
  for (int threads : {1, 4}) {
    for (bool strand : {false, true}) {
      Engine engine({.workers = 2});
      asio::io_context io;
      asio::any_io_executor executor = io.get_executor();
      if (strand)
        executor = asio::make_strand(io);
      std::atomic<int> early{0}, ended{0};
      for (int i = 0; i < 16; ++i)
        asio::co_spawn(executor, client(engine, engine.new_var(), scaled(400), early, ended), asio::detached);
      run_on_threads(io, threads);
      CHECK(early == 0);
      CHECK(ended == 16);
    }
  }
}

TEST_CASE("T59: handlers of one strand never overlap, whichever worker ends their wait") {
  Engine engine({.workers = 2});
  asio::io_context io;
  auto strand = asio::make_strand(io);
  const int rounds = scaled(5'000);
  int count = 0;  // guarded by the strand alone
  Peak peak;
  for (int i = 0; i < rounds; ++i) {
    Var x = engine.new_var();
    engine.push({.name = "x", .access = {out(x)}}, [] {});
    engine.async_wait(x, asio::bind_executor(strand, [&](std::exception_ptr) {
                        peak.enter();
                        ++count;
                        peak.leave();
                      }));
  }
  run_on_threads(io, 4);
  CHECK(count == rounds);
  CHECK(peak.peak() == 1);
}

TEST_CASE("T59: memory comes from the handler's allocator and is back before the handler is called") {
  Engine engine({.workers = 1});
  asio::io_context io;
  Var x = engine.new_var();
  std::atomic<int> taken{0}, held{0};
  int at_call = -1;
  engine.async_wait(
      x, asio::bind_executor(io, asio::bind_allocator(CountingAllocator<char>(taken, held), [&](std::exception_ptr) {
                               at_call = held;
                             })));
  io.run();
  CHECK(taken > 0);
  CHECK(at_call == 0);
  CHECK(held == 0);
}

TEST_CASE("T59: misuse is refused by the call itself, with a typed error") {
  Engine engine({.workers = 1}), other({.workers = 1});
  Var empty, theirs = other.new_var();
  int calls = 0;
  auto callback = [&](std::exception_ptr) { ++calls; };
  CHECK_THROWS_AS(engine.async_wait(empty, callback), ValueError);
  CHECK_THROWS_AS(engine.async_wait(theirs, callback), ValueError);
  CHECK_THROWS_AS(engine.async_wait(write(theirs), asio::use_awaitable), ValueError);
  CHECK(calls == 0);
}

TEST_CASE("T59: an engine may end while waits are under way: each is told first") {
  std::atomic<int> calls{0};
  const int rounds = scaled(500);
  for (int i = 0; i < rounds; ++i) {
    Engine engine({.workers = 2});
    Var x = engine.new_var();
    for (int k = 0; k < 4; ++k) {
      engine.push({.name = "x", .access = {write(x)}}, [] { std::this_thread::yield(); });
      engine.async_wait(x, [&](std::exception_ptr) { ++calls; });
    }
  }
  CHECK(eventually([&] { return calls == 4 * rounds; }));
}
