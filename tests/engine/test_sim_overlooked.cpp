// Cases on the simulated CUDA runtime that planted faults asked for: no other noticed them.
#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include <sluice/engine/cuda/background_poller.h>
#include <sluice/engine/cuda/executable_cache.h>
#include <sluice/engine/cuda/launch_rules.h>
#include <sluice/engine/interop.h>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;
using detail::ExecutableCache;
using detail::GraphCapture;
using detail::GraphHandle;
using Found = ExecutableCache::Found;

namespace {

GraphHandle graph_of(GraphCapture& capture, int nodes) {
  capture.begin(0);
  for (int i = 0; i < nodes; ++i)
    REQUIRE(sim::launch(capture.stream(), [] {}) == cudaSuccess);
  return capture.end();
}

const detail::CudaStream* stream(int i) {  // only its address counts
  static char places[2];
  return reinterpret_cast<const detail::CudaStream*>(places + i);
}

/// What executables are taken for: a graph of so many kernels.
struct Taken {
  explicit Taken(int nodes) : graph(graph_of(capture, nodes)) {}

  Found take(std::uint64_t key, const detail::CudaStream* on = nullptr) {
    return cache.take(detail::shape_of(key, graph.get()), graph.get(), {.stream = on}).found();
  }

  Sim sim;
  GraphCapture capture;
  ExecutableCache cache;
  GraphHandle graph;
};

cudaStream_t stream_of(const Queue& queue) {
  return static_cast<cudaStream_t>(queue.stream());
}

}  // namespace

TEST_CASE("A group tells of a GPU member that fails after it has been issued", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Engine engine({.workers = 1});
  TaskGroup group(engine);
  const Var filler = engine.new_var(), x = engine.new_var();
  const Task fills{.name = "fills", .device = gpu(0), .access = {write(filler)}, .capturable = true};
  for (int i = 0; i < 5; ++i)  // with the fifth a batch begins
    engine.push(fills, [](Queue queue) { sim_launch(queue, [] {}); });
  int calls = 0;
  group.push({.name = "fails", .device = gpu(0), .access = {write(x)}, .capturable = true}, [&](Queue queue) {
    sim_launch(queue, [] {});
    if (++calls == 2)
      throw ValueError("not twice");
  });
  REQUIRE(calls == 1);
  sim::fail_nth("cudaGraphInstantiate", 1, cudaErrorUnknown);  // the bodies are called again
  CHECK_THROWS_AS(group.wait(), ValueError);
  CHECK(calls == 2);
}

TEST_CASE("Each error after which a GPU is of no use loses it, and no task is blamed that ran on another", "[sim]") {
  constexpr cudaError_t k_codes[] = {
      cudaErrorIllegalAddress,
      cudaErrorLaunchTimeout,
      cudaErrorAssert,
      cudaErrorHardwareStackError,
      cudaErrorIllegalInstruction,
      cudaErrorMisalignedAddress,
      cudaErrorInvalidAddressSpace,
      cudaErrorInvalidPc,
      cudaErrorLaunchFailure,
      cudaErrorECCUncorrectable,
      cudaErrorExternalDevice,
      cudaErrorContained,
      cudaErrorTensorMemoryLeak,
      cudaErrorMpsClientTerminated};
  for (const cudaError_t code : k_codes) {
    CAPTURE(cudaGetErrorName(code));
    Sim sim({.devices = 2, .manual = true});
    sim.tolerate_leftovers();
    Engine engine({.workers = 1, .launch = LaunchMode::direct, .report_failures = false});
    const Var here = engine.new_var(), there = engine.new_var();
    engine.push({.name = "elsewhere", .device = gpu(1), .access = {write(there)}}, [](Queue queue) {
      sim_launch(queue, [] {});
    });
    engine.push(
        {.name = "suspect", .device = gpu(0), .access = {write(here)}}, [](Queue queue) { sim_launch(queue, [] {}); });
    engine.flush();  // nothing is left to be asked of the GPU but whether it is done
    sim::lose_device(0, code);
    std::string text;
    try {
      engine.wait(here);
    } catch (const DeviceLost& lost) {
      text = lost.what();
      CHECK(lost.code() == code);
    } catch (const Error&) {  // then `text` is empty
    }
    CHECK_THAT(text, contains("\"suspect\""));
    CHECK(text.find("elsewhere") == std::string::npos);
    sim::set_manual(false);
    CHECK_NOTHROW(engine.wait(there));
  }
}

TEST_CASE("Executables that go and come back count once: two large shapes in turns are never made again", "[sim]") {
  constexpr int k_nodes = 256;
  Taken taken(k_nodes);
  int made = 0;
  for (std::uint64_t i = 0; i < 4 * ExecutableCache::k_most_nodes / k_nodes; ++i)
    made += taken.take(i % 2) != Found::updated ? 1 : 0;
  CHECK(made == 2);
}

TEST_CASE("A graph takes the executable that was launched on its stream, though another rested longer", "[sim]") {
  Taken taken(1);
  taken.take(1, stream(0));
  CHECK(taken.take(1, stream(1)) == Found::made_beside);
  CHECK(taken.take(1, stream(1)) == Found::updated);
}

TEST_CASE("An executable that CUDA does not bring up to date is made anew, and that is counted", "[sim]") {
  Taken taken(1);
  taken.take(1);
  sim::fail_nth("cudaGraphExecUpdate", 1, cudaErrorGraphExecUpdateFailure);
  CHECK(taken.take(1) == Found::made);
  CHECK(sim::calls("cudaGraphInstantiate") == 2);
}

TEST_CASE("A region is as urgent as the most urgent of its tasks", "[sim][region]") {
  Sim sim;
  Engine engine({.workers = 1, .launch = LaunchMode::direct});
  const Var x = engine.new_var(), y = engine.new_var();
  Region region(engine, gpu(0), "region");
  cudaStream_t usual = nullptr, urgent = nullptr;
  // What no capture allows is called on the stream of the region's own task.
  const auto notes = [](cudaStream_t& where) {
    return [&where](Queue queue) {
      spoil(queue);
      where = stream_of(queue);
    };
  };
  for (const Priority priority : {Priority::normal, Priority::urgent}) {
    region.run(static_cast<std::uint64_t>(priority), [&] {
      engine.push({.name = "one", .device = gpu(0), .access = {write(x)}, .capturable = true}, [](Queue) {});
      const Task other{
          .name = "other", .device = gpu(0), .access = {write(y)}, .priority = priority, .capturable = true};
      engine.push(other, notes(priority == Priority::urgent ? urgent : usual));
    });
  }
  engine.wait_all();
  int of_usual = 0, of_urgent = 0;
  REQUIRE(cudaStreamGetPriority(usual, &of_usual) == cudaSuccess);
  REQUIRE(cudaStreamGetPriority(urgent, &of_urgent) == cudaSuccess);
  CHECK(of_urgent < of_usual);
}

TEST_CASE("Where no call of a GPU works it is lost: who needs what lay there fails, and does not run", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  sim.tolerate_leftovers();
  Engine engine({.workers = 1, .launch = LaunchMode::direct, .report_failures = false});
  const Var x = engine.new_var();
  engine.push(
      {.name = "kernel", .device = gpu(0), .access = {write(x)}}, [](Queue queue) { sim_launch(queue, [] {}); });
  sim::lose_device(0, cudaErrorUnknown);  // no error that says so by itself
  std::atomic<bool> ran{false};
  TaskHandle reader = engine.push({.name = "reader", .access = {read(x)}}, [&] { ran = true; });
  CHECK_THROWS_AS(reader.wait(), DeviceLost);
  CHECK_FALSE(ran);
}

TEST_CASE(
    "T58: collectives of one GPU share a stream, in the order of their pushes, whatever Vars they name", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 1});
  std::set<cudaStream_t> streams, others;
  Log log;
  for (int i = 0; i < 8; ++i) {
    const Var own = engine.new_var();
    engine.push(
        {.name = "sum", .device = gpu(0), .access = {write(own)}, .stream = StreamKind::collective},
        [&, i](Queue queue) {
          streams.insert(stream_of(queue));
          sim_launch(queue, [&log, i] { log.add(i); });
        });
    engine.push({.name = "compute", .device = gpu(0), .access = {}}, [&](Queue queue) {
      others.insert(stream_of(queue));
      sim_launch(queue, [] {});
    });
  }
  CHECK(streams.size() == 1);
  CHECK(others.count(*streams.begin()) == 0);
  sim::set_manual(false);
  engine.wait_all();
  CHECK(log.numbers() == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("A batch that begins while nobody watches the GPUs is launched though nobody waits for it", "[sim]") {
  Sim sim;
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  std::atomic<int> ran{0};
  const auto push = [&](int count) {
    for (int i = 0; i < count; ++i) {
      engine.push({.name = "count", .device = gpu(0), .access = {write(x)}, .capturable = true}, [&](Queue queue) {
        sim_launch(queue, [&] { ++ran; });
      });
    }
  };
  for (int round = 1; round <= 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time to fall asleep; if not, this shows nothing
    push(8);
    CHECK(eventually([&] { return ran == 8 * round; }));
  }
}

TEST_CASE("What was lost late stays lost when a later update of it is skipped late, and that is forgiven", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Engine engine({.workers = 1, .report_failures = false});
  const Var filler = engine.new_var(), x = engine.new_var();
  const auto captured = [](const TaskName& name, const Var& var) {
    return Task{.name = name, .device = gpu(0), .access = {write(var)}, .capturable = true};
  };
  const auto launches = [](Queue queue) { sim_launch(queue, [] {}); };
  for (int i = 0; i < 5; ++i)  // with the fifth a batch begins
    engine.push(captured("fills", filler), launches);
  int calls = 0;
  engine.push(captured("loses", x), [&calls](Queue queue) {
    sim_launch(queue, [] {});
    if (++calls == 2)
      throw ValueError("not twice");
  });
  engine.push(captured("updates", x), launches);
  sim::fail_nth("cudaGraphInstantiate", 1, cudaErrorUnknown);  // the bodies are called again
  expect_error<ValueError>([&] { engine.wait(x); }, [&](const ValueError& error) { engine.forgive(error); });
  CHECK(calls == 2);
  CHECK_THROWS_AS(engine.wait(x), ValueError);
}

TEST_CASE("What a step of a capture follows it follows once, however many ways lead there", "[sim]") {
  Sim sim;
  GraphCapture capture;
  capture.begin(0);
  REQUIRE(sim::launch(capture.stream(), [] {}) == cudaSuccess);
  detail::CaptureEnds end, all;
  REQUIRE(capture.read(end));
  all.add(end);
  all.add(end);
  capture.restart_after(all);
  REQUIRE(sim::launch(capture.stream(), [] {}) == cudaSuccess);
  const GraphHandle graph = capture.end();
  std::size_t edges = 0;
  REQUIRE(cudaGraphGetEdges(graph.get(), nullptr, nullptr, nullptr, &edges) == cudaSuccess);
  CHECK(edges == 1);
}

TEST_CASE("T56: a stream that is being captured is neither imported nor exported, and nothing is pushed", "[sim]") {
  Sim sim;
  SimStream foreign;
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  const std::uint64_t pushed = engine.counters().pushed;
  REQUIRE(cudaStreamBeginCapture(foreign, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK_THROWS_AS(import_stream(engine, gpu(0), foreign.handle, {write(x)}), ValueError);
  CHECK_THROWS_AS(export_stream(engine, gpu(0), foreign.handle, {read(x)}), ValueError);
  CHECK(engine.counters().pushed == pushed);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(foreign, &graph) == cudaSuccess);  // it was not spoilt
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("Who watches the GPUs is there after a restart, also where it was woken just before the stop", "[sim]") {
  using Poller = detail::BackgroundPoller;
  Sim sim;
  std::atomic<int> looks{0};
  Poller poller([&] {
    ++looks;
    return Poller::Seen::nothing;
  });
  poller.wake();
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time to fall asleep; if not, this shows nothing
    poller.wake();
    poller.stop();
    const int before = looks;
    poller.restart();
    REQUIRE(eventually([&] { return looks > before; }));
  }
  poller.stop();
}

TEST_CASE("What was enqueued while one stream did everything is waited for alone once there are two", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 1, .launch = LaunchMode::direct});
  const Var x = engine.new_var(), y = engine.new_var();
  Log log;
  cudaStream_t copies = nullptr;
  const auto push = [&](Task task, int number) {
    task.device = gpu(0);
    engine.push(task, [&, number](Queue queue) {
      if (number == 1)
        copies = stream_of(queue);
      sim_launch(queue, [&log, number] { log.add(number); });
    });
  };
  push({.name = "copy", .access = {write(x)}, .stream = StreamKind::copy_in}, 1);
  push({.name = "compute", .access = {}}, 2);  // on a second stream
  sim::run_all();
  sim::hold(copies);
  push({.name = "another copy", .access = {write(y)}, .stream = StreamKind::copy_in}, 3);
  push({.name = "needs the first", .access = {read(x)}}, 4);
  sim::run_all();
  CHECK(log.numbers().size() == 3);
  CHECK(log.numbers().back() == 4);
  sim::release(copies);
  sim::set_manual(false);
  engine.wait_all();
}

TEST_CASE("Of two tasks that follow a third one, which is marked already, the second goes to another stream", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 1, .launch = LaunchMode::direct});
  const Var x = engine.new_var(), y = engine.new_var();
  std::array<cudaStream_t, 3> streams{};
  const auto push = [&](const AccessList& access, std::size_t number) {
    engine.push({.name = "kernel", .device = gpu(0), .access = access}, [&, number](Queue queue) {
      streams[number] = stream_of(queue);
      sim_launch(queue, [] {});
    });
  };
  push({write(x), write(y)}, 0);
  engine.flush();
  push({write(x)}, 1);
  push({read(y)}, 2);
  CHECK(streams[1] == streams[0]);
  CHECK(streams[2] != streams[0]);
  sim::set_manual(false);
  engine.wait_all();
}

TEST_CASE("T55: of the keys that a region knows the one that was run longest ago goes", "[sim][region]") {
  Sim sim;
  Chain chain;
  Region region(chain.engine, gpu(0), "region");
  const auto run = [&](std::uint64_t key) { region.run(key, [&] { chain.push(static_cast<int>(key)); }); };
  for (std::uint64_t key = 1; key <= 8; ++key)
    run(key);
  run(1);
  run(9);
  chain.engine.wait_all();
  CHECK(region.counts().captured == 9);
  run(1);
  chain.engine.wait_all();
  CHECK(region.counts().captured == 9);
  run(2);
  chain.engine.wait_all();
  CHECK(region.counts().captured == 10);
}
