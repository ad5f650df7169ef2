// Groups, handles, completions, names and restarts with tasks on GPUs.
#include <atomic>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <sluice/engine/pending_wait.h>

#include "tests/engine/held.h"
#include "tests/engine/sim_run.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

EngineOptions launched(LaunchMode launch) {
  return {.workers = 2, .launch = launch};
}

}  // namespace

TEST_CASE("A group waits for its GPU tasks' work, also of what CPU members push", "[sim]") {
  const LaunchMode launch = GENERATE(LaunchMode::batch, LaunchMode::direct);
  CAPTURE(to_string(launch));
  Sim sim;
  auto counted = std::make_shared<std::atomic<int>>(0);
  Engine engine(launched(launch));
  TaskGroup group(engine);
  std::vector<Var> vars;
  for (int i = 0; i < 8; ++i)
    vars.push_back(engine.new_var());
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 8; ++i) {
      const Var& var = vars[static_cast<std::size_t>(i)];
      group.push({.name = "on the CPU"}, [&engine, var, i, counted] {
        const Task task{.name = "child", .device = gpu(i % 2), .access = {write(var)}, .capturable = true};
        engine.push(task, [counted](Queue queue) { sim_launch(queue, [counted] { ++*counted; }); });
      });
    }
    group.wait();
    CHECK(*counted == 8 * round);
  }
  TaskHandle awaits = engine.push({.name = "awaits"}, [&]() -> Coroutine {
    group.push({.name = "once more", .device = gpu(0), .capturable = true}, [counted](Queue queue) {
      sim_launch(queue, [counted] { ++*counted; });
    });
    co_await group;
    if (*counted != 25)
      throw ValueError("the group was not waited for");
  });
  CHECK_NOTHROW(awaits.wait());
}

TEST_CASE("A failure of a GPU member is the group's", "[sim]") {
  Sim sim;
  Engine engine(launched(LaunchMode::batch));
  TaskGroup group(engine);
  Var x = engine.new_var();
  group.push({.name = "fails", .device = gpu(0), .access = {write(x)}}, [](Queue) { throw IndexError("on a GPU"); });
  CHECK_THROWS_AS(group.wait(), IndexError);
  CHECK_NOTHROW(group.wait());
}

TEST_CASE("A group is not waited for in a GPU body, nor does one end elsewhere", "[sim]") {
  Sim sim;
  Engine engine(launched(LaunchMode::direct));
  TaskGroup group(engine);
  TaskHandle waits = engine.push({.name = "waits", .device = gpu(0)}, [&](Queue) { group.wait(); });
  CHECK_THROWS_AS(waits.wait(), Deadlock);
  TaskHandle later = engine.push({.name = "later", .device = gpu(0)}, [](Queue queue) { queue.complete_later(); });
  CHECK_THROWS_AS(later.wait(), UnsupportedError);
}

TEST_CASE("done() of a GPU task becomes true for who only asks, also of one in a batch", "[sim]") {
  const LaunchMode launch = GENERATE(LaunchMode::batch, LaunchMode::direct);
  CAPTURE(to_string(launch));
  Sim sim;
  Engine engine(launched(launch));
  Var x = engine.new_var();
  auto ran = std::make_shared<std::atomic<bool>>(false);
  TaskHandle handle = engine.push(
      {.name = "kernel", .device = gpu(0), .access = {write(x)}, .capturable = true},
      [ran](Queue queue) { sim_launch(queue, [ran] { *ran = true; }); });
  CHECK(eventually([&] { return handle.done(); }));
  CHECK(*ran);
  CHECK(handle.status() == TaskStatus::finished);
  TaskHandle fails = engine.push(
      {.name = "fails", .device = gpu(0), .access = {write(x)}}, [](Queue) { throw ValueError("on purpose"); });
  CHECK(eventually([&] { return fails.done(); }));
  CHECK(fails.status() == TaskStatus::failed);
}

TEST_CASE("done() becomes true on a thread that has a CUDA error of its own pending, which stays", "[sim]") {
  const LaunchMode launch = GENERATE(LaunchMode::batch, LaunchMode::direct);
  CAPTURE(to_string(launch));
  Sim sim;
  Engine engine(launched(launch));
  Var x = engine.new_var();
  TaskHandle handle = engine.push(
      {.name = "kernel", .device = gpu(0), .access = {write(x)}, .capturable = true},
      [](Queue queue) { sim_launch(queue, [] {}); });
  REQUIRE(cudaSetDevice(77) == cudaErrorInvalidDevice);
  CHECK(eventually([&] { return handle.done(); }));
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("A question to the driver that fails does not make a GPU task done; one of a lost GPU has failed", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  Engine engine(launched(LaunchMode::direct));
  Var x = engine.new_var();
  TaskHandle handle = engine.push(
      {.name = "kernel", .device = gpu(0), .access = {write(x)}}, [](Queue queue) { sim_launch(queue, [] {}); });
  engine.flush();
  sim::fail_nth("cudaEventQuery", 1, cudaErrorUnknown);
  CHECK_FALSE(handle.done());
  CHECK(sim::failed_call() == "cudaEventQuery");
  sim::fail_nth("cudaEventQuery", 1, cudaErrorIllegalAddress);
  CHECK(handle.done());
  CHECK(handle.status() == TaskStatus::failed);
  CHECK_THROWS_AS(handle.wait(), DeviceLost);
  sim::set_manual(false);
}

TEST_CASE("A flush in a GPU body calls no body of another GPU's tasks", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Engine engine(launched(LaunchMode::batch));
  Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  Gate gate;
  struct Holds final : WaitObserver {
    explicit Holds(Gate gate) : gate(gate) {}
    void complete(std::exception_ptr) noexcept override { gate.wait(); }
    Gate gate;
  } holds(gate);
  std::atomic<bool> inside{false}, nested{false}, called{false};
  Gate kernel;
  engine.push({.name = "slow", .device = gpu(1), .access = {write(z)}}, [kernel](Queue queue) {
    sim_launch(queue, [kernel] { kernel.wait(); });
  });
  const PendingWait pending(read(z), holds);
  pending.start();
  kernel.open();
  REQUIRE(gate.reached());  // by the poller, which issues nothing meanwhile
  std::thread pusher([&] {
    REQUIRE(cudaSetDevice(77) == cudaErrorInvalidDevice);  // so that it is the poller's
    engine.push({.name = "left", .device = gpu(1), .access = {write(x)}}, [&](Queue queue) {
      nested = inside.load();
      called = true;
      sim_launch(queue, [] {});
    });
    cudaGetLastError();
  });
  pusher.join();
  engine.push({.name = "flushes", .device = gpu(0), .access = {write(y)}}, [&](Queue queue) {
    inside = true;
    engine.flush();
    inside = false;
    sim_launch(queue, [] {});
  });
  gate.open();
  engine.wait_all();
  CHECK(called);
  CHECK_FALSE(nested);
}

TEST_CASE("A GPU task after one that others end is issued by who ends it", "[sim]") {
  Sim sim;
  Engine engine(launched(LaunchMode::direct));
  Var x = engine.new_var();
  TaskCompletion completion = written_outside(engine, x);
  auto ran = std::make_shared<std::atomic<bool>>(false);
  engine.push({.name = "kernel", .device = gpu(0), .access = {write(x)}}, [ran](Queue queue) {
    sim_launch(queue, [ran] { *ran = true; });
  });
  std::thread ends([&] { completion.complete(); });
  engine.wait(x);
  ends.join();
  CHECK(*ran);
  CHECK(x.version() == 2);
}

TEST_CASE("GPU tasks whose names are made at run time are told apart, and share a text", "[sim]") {
  Sim sim;
  Engine engine(launched(LaunchMode::direct));
  Var x = engine.new_var();
  for (int i = 0; i < 20; ++i) {
    const std::string name = "kernel number " + std::to_string(i % 2);
    engine.push({.name = name, .device = gpu(0), .access = {out(x)}}, [i](Queue) {
      if (i == 19)
        throw ValueError("the last");
    });
  }
  CHECK_THAT(text_of_error([&] { engine.wait(x); }), contains("kernel number 1"));
}

TEST_CASE("An engine that is started again goes on with its GPUs: order, fences and batches", "[sim]") {
  const LaunchMode launch = GENERATE(LaunchMode::batch, LaunchMode::direct);
  CAPTURE(to_string(launch));
  Sim sim;
  auto sum = std::make_shared<std::atomic<int>>(0);
  Engine engine(launched(launch));
  Var x = engine.new_var();
  for (int round = 1; round <= 4; ++round) {
    int seen = -1;
    for (int i = 0; i < 10; ++i) {
      engine.push(
          {.name = "kernel", .device = gpu(i % 2), .access = {write(x)}, .capturable = true},
          [sum](Queue queue) { sim_launch(queue, [sum] { ++*sum; }); });
    }
    engine.push({.name = "on the CPU", .access = {read(x)}}, [&] { seen = *sum; });  // behind a fence
    engine.stop();
    CHECK(seen == 10 * round);
    engine.restart();
  }
  engine.wait(x);
  CHECK(x.version() == 40);
}

TEST_CASE("An engine that finds no thread for its GPUs when it is to start again says so, and starts later", "[sim]") {
  Sim sim;
  auto ran = std::make_shared<std::atomic<int>>(0);
  Engine engine(launched(LaunchMode::batch));
  Var x = engine.new_var();
  const auto push = [&] {
    engine.push({.name = "kernel", .device = gpu(0), .access = {write(x)}, .capturable = true}, [ran](Queue queue) {
      sim_launch(queue, [ran] { ++*ran; });
    });
  };
  push();
  engine.stop();
  detail::test_faults().most_workers = 0;
  CHECK_THROWS_AS(engine.restart(), ThreadError);
  CHECK_THROWS_AS(push(), EngineStopped);
  detail::test_faults().most_workers = 1 << 20;
  engine.restart();
  for (int i = 0; i < 20; ++i)
    push();
  engine.push({.name = "on the CPU", .access = {read(x)}}, [&] { CHECK(*ran == 21); });
  engine.wait_all();
  CHECK(*ran == 21);
}

TEST_CASE("Without a thread for the GPUs the first push to one throws, and a later one goes well", "[sim]") {
  Sim sim;
  Engine engine(launched(LaunchMode::direct));
  Var x = engine.new_var();
  const auto push = [&] {
    engine.push(
        {.name = "kernel", .device = gpu(0), .access = {write(x)}}, [](Queue queue) { sim_launch(queue, [] {}); });
  };
  detail::test_faults().most_workers = 0;
  CHECK_THROWS_AS(push(), ThreadError);
  detail::test_faults().most_workers = 1 << 20;
  push();
  CHECK_NOTHROW(engine.wait(x));
}

TEST_CASE("done() of a GPU task does not become true for its being issued", "[sim]") {
  Sim sim;
  Engine engine(launched(LaunchMode::direct));
  Var x = engine.new_var();
  for (int round = 0; round < scaled(300); ++round) {
    Gate before, kernel;
    OpensAtEnd opens(kernel);
    auto issued = std::make_shared<std::atomic<bool>>(false);
    engine.push({.name = "before", .access = {write(x)}}, [before] { before.wait(); });
    TaskHandle handle = engine.push({.name = "kernel", .device = gpu(0), .access = {write(x)}}, [=](Queue queue) {
      sim_launch(queue, [kernel] { kernel.wait(); });
      *issued = true;
    });
    before.open();
    bool early = false;
    for (int looks = 0; looks < 1000 && !early; looks += *issued ? 1 : 0)
      early = handle.done();
    CHECK_FALSE(early);
    kernel.open();
    handle.wait();
  }
}

TEST_CASE("A child finds the locks of a group free, whose GPU members come and go in the parent", "[sim]") {
  Sim sim;
  Engine engine({.workers = 2});
  TaskGroup group(engine);
  std::atomic<bool> enough{false};
  std::thread pushes([&] {
    while (!enough) {
      for (int i = 0; i < 50; ++i)
        group.push({.name = "member", .device = gpu(0)}, [](Queue) {});
      group.wait();
    }
  });
  int status = 0;
  for (int i = 0; i < 50 && status == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(50);
      try {
        group.wait();
      } catch (const Error&) {  // it had members under way
      }
      _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
  }
  enough = true;
  pushes.join();
  CHECK(status == 0);
}
