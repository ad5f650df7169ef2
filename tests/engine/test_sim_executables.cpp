// The one place that captures and the one cache of executables, as batches and regions use them.
#include <algorithm>
#include <cstdint>

#include <sluice/engine/cuda/executable_cache.h>
#include <sluice/engine/cuda/graph_capture.h>
#include <sluice/engine/cuda/launch_rules.h>

#include "tests/engine/sim_case.h"
#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;
using detail::ExecutableCache;
using detail::GraphCapture;
using detail::GraphHandle;
using detail::GraphShape;
using detail::LaunchRules;
using Found = ExecutableCache::Found;

namespace {

/// A graph of `nodes` kernels in a row that add 1.
GraphHandle counting(GraphCapture& capture, int nodes, int& word) {
  capture.begin(0);
  for (int i = 0; i < nodes; ++i)
    REQUIRE(sim::launch(capture.stream(), [&word] { ++word; }) == cudaSuccess);
  GraphHandle graph = capture.end();
  REQUIRE(graph.get() != nullptr);
  return graph;
}

/// A cache, and what is taken from it for a graph of one kernel.
struct OneKernel {
  int word = 0;
  GraphCapture capture;
  ExecutableCache cache;
  const GraphHandle graph = counting(capture, 1, word);
  const GraphShape shape = detail::shape_of(1, graph.get());

  Found take(const ExecutableCache::Use& use) { return cache.take(shape, graph.get(), use).found(); }
};

/// Stands for a stream: only its address counts.
const detail::CudaStream* stream(int i) {
  static char places[8];
  return reinterpret_cast<const detail::CudaStream*>(places + i);
}

}  // namespace

TEST_CASE("An executable that was given back is brought up to date for the next graph of its shape", "[sim]") {
  Sim sim;
  int word = 0;
  {
    GraphCapture capture;
    ExecutableCache cache;
    const GraphHandle graph = counting(capture, 3, word);
    const GraphShape shape = detail::shape_of(7, graph.get());
    CHECK(shape.nodes == 3);
    CHECK(detail::shape_of(8, graph.get()).key != shape.key);
    CHECK(cache.take(shape, graph.get(), {}).found() == Found::made);
    CHECK(cache.take(shape, graph.get(), {}).found() == Found::updated);
    const ExecutableCache::Lease one = cache.take(shape, graph.get(), {});
    const ExecutableCache::Lease other = cache.take(shape, graph.get(), {});  // the first is out
    CHECK(one.get() != other.get());
    CHECK(other.found() == Found::made);
    const SimStream where;
    REQUIRE(cudaGraphLaunch(one.get(), where) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(where) == cudaSuccess);
    CHECK(word == 3);
  }
  CHECK(sim::calls("cudaGraphExecDestroy") == sim::calls("cudaGraphInstantiate"));
}

TEST_CASE("Graphs of one shape on several streams have executables of their own, until those rest", "[sim]") {
  Sim sim;
  OneKernel one;
  const auto take = [&](int i) { return one.take({.stream = stream(i)}); };
  CHECK(take(0) == Found::made);
  for (int i = 1; i < static_cast<int>(LaunchRules::k_a_shape); ++i)
    CHECK(take(i) == Found::made_beside);
  CHECK(take(static_cast<int>(LaunchRules::k_a_shape)) == Found::updated);  // no more may be made
  CHECK(take(1) == Found::updated);
  ExecutableCache rested;
  CHECK(rested.take(one.shape, one.graph.get(), {.stream = stream(0)}).found() == Found::made);
  const GraphShape another = detail::shape_of(2, one.graph.get());
  for (std::uint64_t i = 0; i < LaunchRules::k_long_ago; ++i)
    (void)rested.take(another, one.graph.get(), {.stream = stream(0)});
  CHECK(rested.take(one.shape, one.graph.get(), {.stream = stream(1)}).found() == Found::updated);
}

TEST_CASE("Executables of one owner are not lent to another, and go with it", "[sim]") {
  Sim sim;
  OneKernel one;
  int owner = 0;
  one.take({.owner = &owner});
  CHECK(one.take({}) == Found::made);
  CHECK(one.take({.owner = &owner}) == Found::updated);
  one.cache.forget(&owner);
  CHECK(sim::calls("cudaGraphExecDestroy") == 1);
  CHECK(one.take({.owner = &owner}) == Found::made);
  CHECK(one.take({}) == Found::updated);
}

TEST_CASE("Executables that nobody has are bounded by number and by nodes; the oldest go", "[sim]") {
  const int nodes = GENERATE(1, 256);
  CAPTURE(nodes);
  Sim sim;
  int word = 0;
  GraphCapture capture;
  ExecutableCache cache;
  const GraphHandle graph = counting(capture, nodes, word);
  const std::size_t most =
      std::min(ExecutableCache::k_most, ExecutableCache::k_most_nodes / static_cast<std::size_t>(nodes));
  for (std::uint64_t i = 0; i < most + 10; ++i)
    CHECK(cache.take(detail::shape_of(i, graph.get()), graph.get(), {}).found() == Found::made);
  CHECK(sim::calls("cudaGraphExecDestroy") == 10);
  CHECK(cache.take(detail::shape_of(10, graph.get()), graph.get(), {}).found() == Found::updated);
  CHECK(cache.take(detail::shape_of(9, graph.get()), graph.get(), {}).found() == Found::made);
}

TEST_CASE("A capture that was spoilt gives no graph, and the next one is sound", "[sim]") {
  Sim sim;
  int word = 0;
  GraphCapture capture;
  CHECK(capture.end().get() == nullptr);
  capture.begin(0);
  CHECK(capture.intact());
  cudaStreamQuery(capture.stream());  // not allowed under capture
  cudaGetLastError();
  detail::CaptureEnds ends;
  CHECK_FALSE(capture.intact());
  CHECK_FALSE(capture.read(ends));
  CHECK(capture.end().get() == nullptr);
  CHECK_FALSE(capture.is_open());
  const GraphHandle graph = counting(capture, 2, word);
  CHECK(detail::shape_of(1, graph.get()).nodes == 2);
}

TEST_CASE("Graphs of the same tasks with other kernels are not brought up to date with each other", "[sim]") {
  const bool named = GENERATE(true, false);
  CAPTURE(named);
  Sim sim;
  sim.keep_batches_open();
  if (!named)
    sim.leave_kernels_unnamed();
  std::uint64_t word = 0, expected = 0;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 20; ++i) {
      const bool adds = round % 2 == 0;
      const Task task{.name = "either", .device = gpu(0), .access = {write(x)}, .capturable = true};
      engine.push(task, [&word, adds](Queue queue) {
        if (adds)
          sim_launch(queue, [&word] { word += 3; });
        else
          sim_launch(queue, [&word] { word *= 5; });
      });
      expected = adds ? expected + 3 : expected * 5;
    }
    engine.wait(x);
  }
  CHECK(word == expected);
  CHECK(engine.counters().batches > 0);
  if (named)
    CHECK(engine.counters().graphs_made < engine.counters().batches / 2);
  else
    CHECK(engine.counters().graphs_made == engine.counters().batches);
}

TEST_CASE("Graphs of the same kernels in other clusters are not brought up to date with each other", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  std::uint64_t word = 0;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  for (unsigned round = 0; round < 20; ++round) {
    for (int i = 0; i < 20; ++i) {
      const Task task{.name = "product", .device = gpu(0), .access = {write(x)}, .capturable = true};
      engine.push(task, [&word, round](Queue queue) {
        if (sim::launch(
                static_cast<cudaStream_t>(queue.stream()), [&word] { ++word; }, round % 3) != cudaSuccess)
          throw Error("launch");
      });
    }
    engine.wait(x);
  }
  CHECK(word == 400);
  CHECK(engine.counters().batches > 0);
  CHECK(engine.counters().graphs_made < engine.counters().batches / 2);
}
