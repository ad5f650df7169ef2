// Pushers that run ahead rest while unfinished tasks hold too much memory, and only as long as that is of use.
#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"
#include "tests/engine/in_flight.h"
#include "tests/engine/policies.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::uint64_t k_limit = 16 * k_block;

/// What a body saw, and the most of it.
class Most {
 public:
  void see(std::uint64_t now) noexcept {
    for (std::uint64_t seen = most_.load(); seen < now && !most_.compare_exchange_weak(seen, now);) {
    }
  }
  std::uint64_t get() const noexcept { return most_.load(); }

 private:
  std::atomic<std::uint64_t> most_{0};
};

/// Uses its core for so much time of its own.
void compute(std::chrono::milliseconds time) {
  const auto used = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  const auto end = used() + time;
  compute_until([&] { return used() >= end; });
}

/// A thread pushes `count` tasks one after the other, each with a block.
class Pusher {
 public:
  template <class Body>
  Pusher(Engine& engine, int count, Body body)
      : thread_([this, &engine, count, body] {
          const Var order = engine.new_var();
          try {
            for (; pushed < count; ++pushed)
              push_holder(engine, {.name = "step", .access = {write(order)}}, body);
          } catch (const EngineStopped&) {
            refused = true;
          }
          through = true;
        }) {}
  Pusher(const Pusher&) = delete;
  Pusher& operator=(const Pusher&) = delete;
  ~Pusher() { join(); }
  void join() {
    if (thread_.joinable())
      thread_.join();
  }

  std::atomic<int> pushed{0};
  std::atomic<bool> refused{false}, through{false};

 private:
  std::thread thread_;
};

/// The application's only thread.
class Loop {
 public:
  ExternalExecutor executor() {
    return {
        .post =
            [this](std::function<void()> work) {
              const std::lock_guard hold(mutex_);
              posted_.push_back(std::move(work));
            },
        .runs_here = [this] { return runs_; }};
  }
  void run() {
    runs_ = true;
    for (;;) {
      std::function<void()> work;
      {
        const std::lock_guard hold(mutex_);
        if (posted_.empty())
          break;
        work = std::move(posted_.front());
        posted_.pop_front();
      }
      work();
    }
    runs_ = false;
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
  bool runs_ = false;
};

}  // namespace

TEST_CASE("Back-pressure: a pusher rests one block beyond the limit, however much it still has to push") {
  Engine engine({.workers = 1, .max_bytes_in_flight = k_limit});
  std::uint64_t held = 0;
  int pushed = 0;
  Pusher* other = nullptr;
  std::atomic<bool> ready{false};
  Pusher pusher(engine, 200, [&] {
    compute_until([&] { return ready.load(); });
    if (held != 0)
      return;
    CHECK(compute_until([&] { return engine.counters().rests > 0 || other->through; }));
    held = engine.counters().bytes_in_flight;
    pushed = other->pushed;
  });
  other = &pusher;
  ready = true;
  pusher.join();
  engine.wait_all();
  CHECK(held == k_limit + k_block);
  CHECK(pushed == 17);
  CHECK(pusher.pushed == 200);
  CHECK(engine.counters().bytes_in_flight == 0);
}

TEST_CASE("Back-pressure: who has begun to rest goes on when an eighth is gone") {
  Engine engine({.workers = 1, .max_bytes_in_flight = k_limit});
  std::atomic<int> too_early{0}, bodies{0};
  std::atomic<Pusher*> other{nullptr};
  Pusher pusher(engine, 60, [&] {
    compute_until([&] { return other.load() != nullptr; });
    if (bodies++ == 0)
      compute_until([&] { return engine.counters().rests > 0; });
    // 17 were pushed. While more than 14 of them hold their blocks nobody comes after them.
    if (bodies <= 3) {
      compute(std::chrono::milliseconds(5));
      too_early += other.load()->pushed > 17 ? 1 : 0;
    }
  });
  other = &pusher;
  pusher.join();
  engine.wait_all();
  CHECK(too_early == 0);
  CHECK(engine.counters().rests < 20);  // by groups, not one by one
}

TEST_CASE("Back-pressure: bodies that take long do not let a loop run ahead") {
  Engine engine({.workers = 1, .max_bytes_in_flight = 4 * k_block});
  Most most;
  Pusher pusher(engine, 20, [&] {
    most.see(engine.counters().bytes_in_flight);
    compute(std::chrono::milliseconds(40));
  });
  pusher.join();
  engine.wait_all();
  CHECK(most.get() <= 5 * k_block);
}

TEST_CASE("Back-pressure: bodies that take long do not let tasks pile up beyond their limit") {
  Engine engine({.workers = 1, .max_live_tasks = 64});
  Most most;
  std::atomic<int> pushed{0}, done{0};
  for (int i = 0; i < 640; ++i) {
    engine.push({.name = "step"}, [&] {
      most.see(static_cast<std::uint64_t>(pushed - done));
      if (done++ % 64 == 0)
        compute(std::chrono::milliseconds(50));
    });
    ++pushed;
  }
  engine.wait_all();
  CHECK(most.get() <= 128);  // asked every 64 pushes
}

TEST_CASE("Back-pressure: a pusher that holds the gate itself is let through, in few steps") {
  for (const CpuMode policy : k_threaded) {
    CAPTURE(to_string(policy));
    Engine engine({.workers = 1, .cpu_policy = policy, .max_bytes_in_flight = k_limit});
    const Var order = engine.new_var();
    const QuietGate gate;
    std::atomic<int> done{0};
    engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
    for (int i = 0; i < 10'000; ++i)
      push_holder(engine, {.name = "behind", .access = {write(order)}}, [&] { ++done; });
    CHECK(done == 0);
    CHECK(engine.counters().bytes_in_flight == 10'000 * k_block);
    CHECK(engine.counters().rests >= 1);
    CHECK(engine.counters().rests <= 40);  // 625 MiB, 32 MiB or more at a time
    gate.open();
    engine.wait(order);
    CHECK(done == 10'000);
  }
}

TEST_CASE("Back-pressure: a pusher that holds a lock which bodies take is let through") {
  Engine engine({.workers = 2, .max_bytes_in_flight = 4 * k_block});
  std::mutex mutex;
  std::atomic<int> done{0};
  {
    const std::lock_guard hold(mutex);
    for (int i = 0; i < 100; ++i) {
      push_holder(engine, {.name = "takes the lock"}, [&] {
        const std::lock_guard inside(mutex);
        ++done;
      });
    }
    CHECK(done == 0);
  }
  engine.wait_all();
  CHECK(done == 100);
}

TEST_CASE("Back-pressure: pushes inside tasks never rest for memory") {
  Engine engine({.workers = 2, .max_bytes_in_flight = k_block});
  const Var order = engine.new_var();
  std::atomic<int> done{0};
  engine.push({.name = "parent", .access = {write(order)}}, [&] {
    for (int i = 0; i < 200; ++i)
      push_holder(engine, {.name = "child", .access = {write(order)}}, [&] { ++done; });
    CHECK(done == 0);  // they all come after this body, so a rest would have been in vain
    CHECK(engine.counters().bytes_in_flight == 200 * k_block);
  });
  engine.wait_all();
  CHECK(done == 200);
  CHECK(engine.counters().rests == 0);
}

TEST_CASE("Back-pressure: engines do not rest for each other's memory") {
  Engine full({.workers = 1, .max_bytes_in_flight = k_block}), other({.workers = 1, .max_bytes_in_flight = k_limit});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var order = full.new_var();
  full.push({.name = "parent", .access = {write(order)}}, [&] {
    for (int i = 0; i < 10; ++i)
      push_holder(full, {.name = "child", .access = {write(order)}}, [] {});
    gate.wait();
  });
  REQUIRE(eventually([&] { return full.counters().bytes_in_flight == 10 * k_block; }));
  for (int i = 0; i < 10; ++i)
    push_holder(other, {.name = "step"}, [] {});
  CHECK(other.counters().rests == 0);
  other.wait_all();
  gate.open();
  full.wait_all();
  CHECK(full.counters().bytes_in_flight == 0);
}

TEST_CASE("Back-pressure: an attached thread works while it would rest") {
  Engine engine({.workers = 1, .max_bytes_in_flight = k_limit});
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "keeps the worker"}, [gate] { gate.wait(); });
  CHECK(gate.reached());
  Most most;
  std::atomic<int> done{0};
  {
    AttachScope attached(engine);
    for (int i = 0; i < 500; ++i) {
      push_holder(engine, {.name = "step"}, [&done, i] {
        ++done;
        compute(std::chrono::milliseconds(i % 100 == 0 ? 2 : 0));
      });
      most.see(engine.counters().bytes_in_flight);
    }
  }
  CHECK(done >= 480);
  CHECK(most.get() <= k_limit + k_block);
  gate.open();
  engine.wait_all();
  CHECK(engine.counters().bytes_in_flight == 0);
}

TEST_CASE("Back-pressure: on an executor of one thread the handler that pushes runs tasks itself") {
  Loop loop;
  Most most;
  std::atomic<int> done{0};
  Engine engine({.max_bytes_in_flight = k_limit, .executor = loop.executor()});
  loop.executor().post([&] {
    for (int i = 0; i < 500; ++i) {
      push_holder(engine, {.name = "step"}, [&] { ++done; });
      most.see(engine.counters().bytes_in_flight);
    }
  });
  loop.run();
  CHECK(done == 500);
  CHECK(most.get() <= k_limit + k_block);
  CHECK(engine.counters().bytes_in_flight == 0);
}

TEST_CASE("Back-pressure: a pusher whose executor nobody serves yet is let through") {
  Loop loop;
  std::atomic<int> done{0};
  Engine engine({.max_bytes_in_flight = k_limit, .executor = loop.executor()});
  for (int i = 0; i < 200; ++i)
    push_holder(engine, {.name = "step"}, [&] { ++done; });
  CHECK(done == 0);
  loop.run();
  CHECK(done == 200);
}

TEST_CASE("Who is short of what tasks hold runs them itself where nobody else would") {
  const auto runs_some = [](Engine& engine) {
    std::atomic<int> done{0};
    for (int i = 0; i < 10; ++i)
      engine.push({.name = "step"}, [&] { ++done; });
    const bool was_left = done < 10, awaited = sluice::detail::EngineAccess::await_task(engine);
    CHECK(awaited == was_left);
    CHECK(done > 0);
    engine.wait_all();
  };
  Loop loop;
  Engine on_loop({.executor = loop.executor()});
  loop.executor().post([&] { runs_some(on_loop); });
  loop.run();
  Engine chaos({.cpu_policy = CpuMode::chaos});
  runs_some(chaos);
}

TEST_CASE("What runs at once and is short of what tasks hold runs none of them: they might wait for what it reads") {
  Engine engine({.workers = 1});
  const AttachScope attached(engine);
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "keeps the worker"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  std::atomic<bool> left_ran{false};
  engine.push({.name = "left"}, [&] { left_ran = true; });
  const Var var = engine.new_var();
  detail::VarCore* const reads[] = {var.core()};
  const detail::AtOnce call{.name = "at once", .reads = reads};
  CHECK(detail::EngineAccess::run_at_once(engine, call, [&](Queue) {
    CHECK_FALSE(detail::EngineAccess::await_task(engine));
    CHECK_FALSE(left_ran);
  }));
  CHECK(detail::EngineAccess::await_task(engine));  // outside of it, this thread does
  CHECK(left_ran);
}

TEST_CASE("Back-pressure: under the serial and the chaos policy a pusher runs what it left") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::chaos}) {
    CAPTURE(to_string(policy));
    Engine engine({.cpu_policy = policy, .max_bytes_in_flight = k_limit});
    Most most;
    std::atomic<int> done{0};
    for (int i = 0; i < 500; ++i) {
      push_holder(engine, {.name = "step"}, [&] { ++done; });
      most.see(engine.counters().bytes_in_flight);
    }
    engine.wait_all();
    CHECK(done == 500);
    CHECK(most.get() <= k_limit + k_block);
    CHECK(engine.counters().bytes_in_flight == 0);
  }
}

TEST_CASE("Back-pressure: a pusher that rests is told when the engine stops") {
  const Stop how = GENERATE(Stop::drain, Stop::cancel);
  Engine engine({.workers = 1, .max_bytes_in_flight = k_limit});
  std::atomic<bool> go_on{false};
  std::atomic<int> run{0};
  Pusher pusher(engine, 10'000, [&](Queue queue) {
    ++run;
    compute_until([&] { return go_on || queue.stop_requested(); });
  });
  REQUIRE(eventually([&] { return engine.counters().rests > 0; }));
  std::thread stopper([&] { engine.stop(how); });
  pusher.join();  // before any task has ended, where it drains
  CHECK(pusher.refused);
  CHECK(pusher.pushed < 10'000);
  go_on = true;
  stopper.join();
  CHECK(engine.counters().bytes_in_flight == 0);
  CHECK(engine.counters().retired == static_cast<std::uint64_t>(pusher.pushed));
  if (how == Stop::drain)
    CHECK(run == pusher.pushed);
}

TEST_CASE("Back-pressure: no limit is one too") {
  Engine engine({.workers = 1, .max_bytes_in_flight = 0});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var order = engine.new_var();
  engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
  for (int i = 0; i < 100; ++i)
    push_holder(
        engine, {.name = "behind", .access = {write(order)}}, [] {}, std::uint64_t{1} << 34);
  CHECK(engine.counters().bytes_in_flight == std::uint64_t{100} << 34);
  CHECK(engine.counters().rests == 0);
  gate.open();
  engine.wait_all();
  CHECK(engine.counters().bytes_in_flight == 0);
}
