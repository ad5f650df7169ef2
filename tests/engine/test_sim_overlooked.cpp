// Cases on the simulated CUDA runtime that planted faults asked for: no other noticed them.
#include <atomic>
#include <string>

#include <sluice/engine/cuda/executable_cache.h>
#include <sluice/engine/cuda/launch_rules.h>

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
  Sim sim;
  GraphCapture capture;
  ExecutableCache cache;
  constexpr int k_nodes = 256;
  const GraphHandle graph = graph_of(capture, k_nodes);
  int made = 0;
  for (std::uint64_t i = 0; i < 4 * ExecutableCache::k_most_nodes / k_nodes; ++i)
    made += cache.take(detail::shape_of(i % 2, graph.get()), graph.get(), {}).found() != Found::updated ? 1 : 0;
  CHECK(made == 2);
}

TEST_CASE("A graph takes the executable that was launched on its stream, though another rested longer", "[sim]") {
  Sim sim;
  GraphCapture capture;
  ExecutableCache cache;
  const GraphHandle graph = graph_of(capture, 1);
  const detail::GraphShape shape = detail::shape_of(1, graph.get());
  (void)cache.take(shape, graph.get(), {.stream = stream(0)});
  CHECK(cache.take(shape, graph.get(), {.stream = stream(1)}).found() == Found::made_beside);
  CHECK(cache.take(shape, graph.get(), {.stream = stream(1)}).found() == Found::updated);
}

TEST_CASE("An executable that CUDA does not bring up to date is made anew, and that is counted", "[sim]") {
  Sim sim;
  GraphCapture capture;
  ExecutableCache cache;
  const GraphHandle graph = graph_of(capture, 1);
  const detail::GraphShape shape = detail::shape_of(1, graph.get());
  (void)cache.take(shape, graph.get(), {});
  sim::fail_nth("cudaGraphExecUpdate", 1, cudaErrorGraphExecUpdateFailure);
  CHECK(cache.take(shape, graph.get(), {}).found() == Found::made);
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
