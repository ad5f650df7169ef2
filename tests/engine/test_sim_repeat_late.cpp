// Bodies that came again are called late: inside another task's body, or behind tasks that come after them.
#include <atomic>
#include <vector>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Where the work stands that a Var's memory was last used by.
struct Memory final : RetireHook {
  PositionSet pending;
  std::atomic<bool> free{false};
  void on_retire(const PositionSet& positions) noexcept override {
    pending = positions;
    free = true;
  }
};

constexpr int k_tasks = 40;

/// Tasks that count how often their kernels ran, and have been learnt in one order.
struct Counted {
  Engine engine{EngineOptions{.workers = 1}};
  std::atomic<int> counts[k_tasks] = {};
  Memory memory;
  bool waits = false;
  Var x = engine.new_var(), y = engine.new_var();

  Counted() {
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < k_tasks; ++i)
        push(i % 2 == 0 ? x : y, i);
      engine.wait_all();
    }
    for (std::atomic<int>& count : counts)
      count = 0;
  }

  /// Task 36 waits for the memory when it is told to, which it must not do.
  void push(const Var& var, int i) {
    const Task task{.name = "count", .device = gpu(0), .access = {write(var)}, .capturable = true};
    engine.push(task, repeatable([this, i](Queue queue) {
                  if (i == 36 && waits)
                    queue.wait_for(memory.pending);
                  sim_launch(queue, [count = &counts[i]] { ++*count; });
                }));
  }
  /// Tasks 36 to 39, 10 to 13 and 9 are put off, the last four in one batch, in an order that never came; task 9 leaves
  /// the memory.
  void push_put_off() {
    {
      const Var dies = engine.new_var({.home = gpu(0), .on_retire = &memory});
      for (int i = 0; i < 4; ++i)
        push(x, 2 * i);  // launched directly
      for (int i = 0; i < 4; ++i) {
        push(x, k_tasks - 1 - i);
        push(y, 10 + i);
      }
      push(dies, 9);
    }
    REQUIRE(eventually([this] { return memory.free.load(); }));
    REQUIRE(!memory.pending.empty());
  }
  /// So often each of them ran.
  void check_ran(int often, std::initializer_list<int> tasks) const {
    for (int i : tasks) {
      CAPTURE(i);
      CHECK(counts[i] == often);
    }
  }
};

Task direct(const TaskName& name, AccessList access) {
  return {.name = name, .device = gpu(0), .access = std::move(access)};
}

}  // namespace

TEST_CASE("A body in which others are called late, in vain, stays behind what its task needs", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  sim.tolerate_leftovers();  // a call that fails leaves what it should have ended
  Counted counted;
  Engine& engine = counted.engine;
  std::atomic<bool> open{false}, done{false}, early{false};
  Var a = engine.new_var(), b = engine.new_var();
  engine.push(direct("slow", {write(a), write(b)}), [&](Queue queue) {
    sim_launch(queue, [&] {
      while (!open)
        std::this_thread::yield();
      done = true;
    });
  });
  engine.push(direct("follows", {write(b)}), [](Queue queue) { sim_launch(queue, [] {}); });
  counted.push_put_off();
  sim::fail_nth("cudaStreamUpdateCaptureDependencies", 1, cudaErrorUnknown);
  const Memory& memory = counted.memory;
  engine.push(direct("waits", {write(a)}), [&](Queue queue) { queue.engine().wait_passed(memory.pending); });
  engine.push(direct("sees", {write(a)}), [&](Queue queue) { sim_launch(queue, [&] { early = !done; }); });
  CHECK(engine.counters().reissued > 0);
  engine.flush();
  for (int i = 0; i < 1000; ++i)
    std::this_thread::yield();
  open = true;
  engine.wait_all();
  CHECK(!early);
  counted.check_ran(1, {39, 10, 38, 11, 37, 12, 36, 13, 9});
}

TEST_CASE("A body in which others are called late keeps the CUDA error that it has left", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Counted counted;
  counted.push_put_off();
  Var bad = counted.engine.new_var();
  counted.engine.push(direct("bad", {write(bad)}), [&counted](Queue queue) {
    (void)queue.stream();
    cudaSetDevice(77);  // leaves an error, as a launch of too large blocks does
    queue.wait_for(counted.memory.pending);
  });
  CHECK_THROWS_AS(counted.engine.wait(bad), CudaError);
  CHECK_NOTHROW(counted.engine.wait(counted.x));
  counted.check_ran(1, {39, 10, 38, 11, 37, 12, 36, 13, 9});
}

TEST_CASE("A body that is called late and waits for what comes after it fails, and no other", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Counted counted;
  counted.push_put_off();
  counted.waits = true;
  const std::uint64_t written = counted.x.version();
  for (int i = 0; i < 3; ++i)
    CHECK_THROWS_AS(counted.engine.wait(counted.x), ValueError);
  CHECK(counted.x.version() == written - 1);  // task 36 had counted
  CHECK_NOTHROW(counted.engine.wait_all());
  counted.check_ran(0, {36});
  counted.check_ran(1, {39, 10, 38, 11, 37, 12, 13, 9});
}
