// Cases of the engine's specification in their full strength, as far as GPUs are concerned.
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/engine/sim_run.h"
#include "tests/support/child.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE(
    "T30: a GPU task in an open batch, or issued, cannot be cancelled; one behind a CPU task can, twice", "[sim]") {
  auto held = std::make_shared<std::atomic<int>>(0);
  {
    Sim sim;
    sim.keep_batches_open();
    Engine engine({.workers = 1});
    const Var x = engine.new_var(), gated = engine.new_var();
    Gate gate;
    OpensAtEnd opens(gate);
    const auto count = [held](Queue queue) { sim_launch(queue, [held] { ++*held; }); };
    std::vector<TaskHandle> issued;
    for (int i = 0; i < 12; ++i) {  // the first are launched by themselves, the last lie in a batch
      issued.push_back(
          engine.push({.name = "count", .device = gpu(0), .access = {write(x)}, .capturable = true}, count));
    }
    engine.push({.name = "hold", .access = {write(gated)}}, [gate] { gate.wait(); });
    TaskHandle queued = engine.push({.name = "queued", .device = gpu(0), .access = {read(gated), write(x)}}, count);
    for (TaskHandle& handle : issued)
      CHECK_FALSE(handle.cancel());
    CHECK(queued.cancel());
    CHECK(queued.cancel());
    gate.open();
    CHECK_THROWS_AS(queued.wait(), Cancelled);
    for (TaskHandle& handle : issued)
      CHECK_NOTHROW(handle.wait());
    CHECK(*held == 12);
    CHECK_THROWS_AS(engine.wait(x), Cancelled);
  }
  CHECK(held.use_count() == 1);
}

namespace {

class PositionsHook final : public RetireHook {
 public:
  void on_retire(const PositionSet& pending) noexcept override {
    positions = pending;
    called = true;
  }
  PositionSet positions;
  std::atomic<bool> called{false};
};

}  // namespace

// Memory written on one stream and read on another goes to a third one: as storage passes it on.
TEST_CASE("T39: a new Var over used memory waits for its writer and all its readers, whichever is late", "[sim]") {
  const std::size_t late = GENERATE(0, 1, 2);
  const bool on_cpu = GENERATE(false, true);
  CAPTURE(late, on_cpu);
  constexpr std::array k_kinds = {StreamKind::copy_in, StreamKind::copy_out, StreamKind::collective};
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 1});
  std::array<cudaStream_t, 3> streams{};
  Log log;
  PositionsHook hook;
  const auto push = [&](Access access, StreamKind kind, std::size_t number) {
    engine.push({.name = "uses", .device = gpu(0), .access = {access}, .stream = kind}, [&, number](Queue queue) {
      streams[number] = static_cast<cudaStream_t>(queue.stream());
      sim_launch(queue, [&, number] { log.add(static_cast<int>(number)); });
    });
  };
  {
    const Var old = engine.new_var({.home = gpu(0), .on_retire = &hook});
    push(write(old), k_kinds[0], 0);
    push(read(old), k_kinds[1], 1);
    push(read(old), k_kinds[2], 2);
  }
  REQUIRE(eventually([&] { return hook.called.load(); }));  // at issue: nothing has run yet
  CHECK(log.numbers().empty());
  const Var anew = engine.new_var({.home = gpu(0), .pending = &hook.positions});
  if (on_cpu) {
    engine.push({.name = "poison", .access = {out(anew)}}, [&] { log.add(9); });
  } else {
    engine.push({.name = "poison", .device = gpu(0), .access = {out(anew)}}, [&](Queue queue) {
      sim_launch(queue, [&] { log.add(9); });
    });
  }
  sim::hold(streams[late]);
  sim::run_all();
  CHECK(log.numbers().size() == (late == 0 ? 0u : 2u));
  sim::release(streams[late]);
  sim::set_manual(false);
  engine.wait(anew);
  CHECK(log.numbers().size() == 4);
  CHECK(log.numbers().back() == 9);
}

namespace {

void take_turns(int turns) {
  Sim sim(seeded(3));
  std::uint64_t word = 0, expected = 0;
  const auto held = std::make_shared<int>(0);
  {
    Engine engine({.workers = 1});
    const Var x = engine.new_var();
    for (int i = 0; i < turns; ++i) {
      const auto value = static_cast<std::uint64_t>(i);
      if (i % 2 == 0) {
        engine.push({.name = "GPU", .device = gpu(0), .access = {write(x)}}, [&word, value, held](Queue queue) {
          sim_launch(queue, [&word, value] { word = 3 * word + value; });
        });
      } else {
        engine.push({.name = "CPU", .access = {write(x)}}, [&word, value, held] { word = 3 * word + value; });
      }
      expected = 3 * expected + value;
    }
    engine.wait(x);
    CHECK(word == expected);
    CHECK(x.version() == static_cast<std::uint64_t>(turns));
  }
  CHECK(held.use_count() == 1);
}

}  // namespace

TEST_CASE("T43: ten thousand turns between GPU and CPU on one Var, in order, with nothing left behind", "[sim]") {
  take_turns(scaled(10'000));
}

TEST_CASE("T43: a hundred thousand turns", "[sim][.long]") {
  take_turns(100'000);
}

TEST_CASE(
    "T57: the host waits for nothing while a graph over two GPUs and the CPU is pushed; the values are right",
    "[sim]") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(scaled(10)); ++seed) {
    CAPTURE(seed);
    const Program program = random_program(seed, 400, 12, 1);
    Sim sim(seeded(seed));
    const auto history = std::make_shared<History>(program);
    Engine engine({.workers = 2});
    std::vector<Var> vars(program.cells);
    for (Var& var : vars)
      var = engine.new_var();
    for (std::size_t i = 0; i < program.steps.size(); ++i) {
      if (i == 50)
        sim::clear_calls();  // streams and events have been made
      const Step& step = program.steps[i];
      const Device device = device_of(Where::everywhere, i);
      Task task{.name = "step", .device = device, .access = access_of(step, vars), .capturable = i % 2 == 0};
      const auto run = [history, step, i] { run_step(step, i, history->cells.data(), history->seen[i]); };
      if (device.is_cpu())
        engine.push(task, run);
      else
        engine.push(task, [run](Queue queue) { sim_launch(queue, run); });
    }
    CHECK(sim::blocking_calls() == 0);
    engine.wait_all();
    REQUIRE(judge(program, *history) == "");
  }
}

TEST_CASE("T47: an engine that is idle after a burst on a GPU neither computes nor wakes up", "[sim]") {
  Sim sim;
  Engine engine({.workers = 4});
  const Var x = engine.new_var();
  for (int i = 0; i < 2000; ++i) {
    engine.push(
        {.name = "burst", .device = gpu(i % 2), .access = {write(x)}, .capturable = i % 3 != 0},
        [](Queue queue) { sim_launch(queue, [] {}); });
  }
  engine.push({.name = "behind", .access = {read(x)}}, [] {});
  engine.wait_all();
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return std::pair(seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nvcsw);
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // idle workers look about first
  const auto [cpu_before, sleeps_before] = used();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const auto [cpu_after, sleeps_after] = used();
  INFO("seconds of CPU: " << cpu_after - cpu_before << ", times asleep: " << sleeps_after - sleeps_before);
  CHECK(cpu_after - cpu_before < 0.02 * k_slowdown);  // 1 %
  CHECK(sleeps_after - sleeps_before < 200);          // the watchdog of the tests looks ten times a second
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads

namespace {

/// In a child: its GPU tasks are refused, its CPU tasks run, and nobody calls CUDA. The step that failed, 0 if none.
int use_child(Engine& engine, const Var& written_on_gpu, TaskHandle& last, const std::string& when, TaskGroup& group) {
  const std::map<std::string, int> calls = sim::calls();
  const auto refused = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  const Var x = engine.new_var();
  int value = 0;
  for (int i = 0; i < 100; ++i)
    engine.push({.name = "child", .access = {write(x)}}, [&] { ++value; });
  engine.wait(x);
  if (value != 100)
    return 2;
  if (!refused([&] { engine.push({.name = "GPU", .device = gpu(0), .access = {write(x)}}, [](Queue) {}); }))
    return 3;
  if (!refused([&] { engine.wait(written_on_gpu); }))  // what it holds is the parent's alone
    return 4;
  engine.push({.name = "anew", .access = {out(written_on_gpu)}}, [&] { value = 7; });
  engine.wait(written_on_gpu);
  if (value != 7)
    return 5;
  if (last.done() && last.status() != TaskStatus::finished)  // some are not issued by then, and never will be here
    return 7;
  if (when == "idle" && !group.done())
    return 8;
  try {
    group.wait();
  } catch (const Forked&) {  // as any Var that GPU work has used
  }
  return sim::calls() == calls ? 0 : 6;
}

}  // namespace

TEST_CASE(
    "T33: a child of a process with GPU work uses CPU tasks alone, calls no CUDA and leaves the parent's be", "[sim]") {
  const std::string when = GENERATE("idle", "under load", "from a body");
  CAPTURE(when);
  Sim sim;
  std::atomic<int> ran{0};
  std::atomic<int> code{-1};
  {
    Engine engine({.workers = 2});
    const Var x = engine.new_var(), own = engine.new_var();
    TaskGroup group(engine);
    TaskHandle last;
    const auto push = [&] {
      const Task task{.name = "count", .device = gpu(0), .access = {write(x)}, .capturable = true};
      last = group.push(task, [&](Queue queue) { sim_launch(queue, [&] { ++ran; }); });
    };
    for (int i = 0; i < 100; ++i)
      push();
    if (when == "idle") {
      engine.wait_all();
      code = in_child([&] { return use_child(engine, x, last, when, group); });
    } else if (when == "under load") {
      std::atomic<bool> enough{false};
      std::thread pusher([&] {
        while (!enough)
          engine.push({.name = "load", .access = {write(own)}}, [] {});
      });
      sim::hold(nullptr);
      code = in_child([&] { return use_child(engine, x, last, when, group); });
      sim::release(nullptr);
      enough = true;
      pusher.join();
    } else {
      engine.push({.name = "forks", .access = {read(x)}}, [&] {
        code = in_child([&] {
          try {
            engine.push({.name = "child"}, [] {});
          } catch (const Forked&) {
            return 0;
          }
          return 2;
        });
      });
    }
    engine.wait_all();
    for (int i = 0; i < 100; ++i)
      push();
    engine.wait(x);
    CHECK(code == 0);
    CHECK(ran == 200);
  }
}

#endif
