// The simulated CUDA runtime itself: capture and graphs.
#include <set>
#include <vector>

#include "tests/engine/sim_case.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct SimGraph {
  SimGraph() = default;
  SimGraph(const SimGraph&) = delete;
  SimGraph& operator=(const SimGraph&) = delete;
  ~SimGraph() {
    if (exec != nullptr)
      CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    if (graph != nullptr)
      CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

void begin(cudaStream_t stream) {
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
}

std::vector<cudaGraphNode_t> frontier(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  REQUIRE(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, nullptr, &count) == cudaSuccess);
  REQUIRE(status == cudaStreamCaptureStatusActive);
  return std::vector<cudaGraphNode_t>(nodes, nodes + count);
}

void set_frontier(cudaStream_t stream, std::vector<cudaGraphNode_t> nodes) {
  REQUIRE(
      cudaStreamUpdateCaptureDependencies(
          stream, nodes.data(), nullptr, nodes.size(), cudaStreamSetCaptureDependencies) == cudaSuccess);
}

/// A root, two branches that nothing orders, and a join, which write their numbers into `order`.
void capture_diamond(cudaStream_t stream, Log& order, cudaGraph_t* graph) {
  begin(stream);
  auto node = [&](int i) { REQUIRE(sim::launch(stream, [&order, i] { order.add(i); }) == cudaSuccess); };
  node(0);
  const auto root = frontier(stream);
  node(1);
  const auto left = frontier(stream);
  set_frontier(stream, root);
  node(2);
  REQUIRE(
      cudaStreamUpdateCaptureDependencies(
          stream, const_cast<cudaGraphNode_t*>(left.data()), nullptr, 1, cudaStreamAddCaptureDependencies) ==
      cudaSuccess);
  node(3);
  REQUIRE(cudaStreamEndCapture(stream, graph) == cudaSuccess);
}

}  // namespace

TEST_CASE("Simulator: a captured graph runs its nodes in every order that its edges allow, and no other", "[sim]") {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Sim sim({.seed = seed, .manual = true});
    SimStream stream;
    SimGraph held;
    Log order;
    capture_diamond(stream, order, &held.graph);
    CHECK(sim::run_all() == 0);  // nothing ran while it was captured
    std::size_t nodes = 0, edges = 0;
    CHECK(cudaGraphGetNodes(held.graph, nullptr, &nodes) == cudaSuccess);
    CHECK(cudaGraphGetEdges(held.graph, nullptr, nullptr, nullptr, &edges) == cudaSuccess);
    CHECK(nodes == 4);
    CHECK(edges == 4);
    REQUIRE(cudaGraphInstantiate(&held.exec, held.graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(held.exec, stream) == cudaSuccess);
    sim::run_all();
    orders.insert(order.numbers());
  }
  CHECK(orders == std::set<std::vector<int>>{{0, 1, 2, 3}, {0, 2, 1, 3}});
}

TEST_CASE("Simulator: launches of a graph follow their stream, and each other on any stream", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Sim sim(seeded(seed));
    SimStream a, b;
    SimGraph held;
    Log order;
    capture_diamond(a, order, &held.graph);
    REQUIRE(cudaGraphInstantiate(&held.exec, held.graph, 0) == cudaSuccess);
    sim::launch(a, [&] { order.add(-1); });
    for (int i = 0; i < 6; ++i)
      CHECK(cudaGraphLaunch(held.exec, i % 2 == 0 ? a : b) == cudaSuccess);
    CHECK(cudaStreamSynchronize(b) == cudaSuccess);  // the last launch, and so all
    const std::vector<int> numbers = order.numbers();
    REQUIRE(numbers.size() == 25);
    for (int i = 0; i < 6; ++i) {
      CHECK(numbers[static_cast<std::size_t>(1 + 4 * i)] == 0);
      CHECK(numbers[static_cast<std::size_t>(4 + 4 * i)] == 3);
    }
    CHECK(numbers[0] == -1);
  }
}

TEST_CASE("Simulator: an update takes other bodies and the same edges; what was launched keeps its own", "[sim]") {
  Sim sim({.manual = true});
  SimStream stream;
  Log first, second, third;
  SimGraph held, same, other;
  capture_diamond(stream, first, &held.graph);
  capture_diamond(stream, second, &same.graph);
  begin(stream);
  for (int i = 0; i < 4; ++i)
    sim::launch(stream, [&third, i] { third.add(i); });
  REQUIRE(cudaStreamEndCapture(stream, &other.graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&held.exec, held.graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(held.exec, stream) == cudaSuccess);
  cudaGraphExecUpdateResultInfo info{};
  CHECK(cudaGraphExecUpdate(held.exec, other.graph, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  CHECK(cudaGraphExecUpdate(held.exec, same.graph, &info) == cudaSuccess);
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  REQUIRE(cudaGraphLaunch(held.exec, stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(held.exec) == cudaSuccess);  // while both launches are under way
  held.exec = nullptr;
  sim::run_all();
  CHECK(first.numbers().size() == 4);
  CHECK(second.numbers().size() == 4);
  CHECK(third.numbers().empty());
}

TEST_CASE("Simulator: events carry a capture to another stream and back", "[sim]") {
  Sim sim;
  SimStream origin, branch;
  SimEvent fork, join;
  SimGraph held;
  std::uint64_t word = 0;
  begin(origin);
  sim::launch(origin, [&] { word = 3 * word + 1; });
  CHECK(cudaEventRecord(fork, origin) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(branch, fork, 0) == cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CHECK(cudaStreamIsCapturing(branch, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  sim::launch(branch, [&] { word = 3 * word + 2; });
  CHECK(cudaEventRecord(join, branch) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(origin, join, 0) == cudaSuccess);
  sim::launch(origin, [&] { word = 3 * word + 3; });
  REQUIRE(cudaStreamEndCapture(origin, &held.graph) == cudaSuccess);
  CHECK(cudaStreamIsCapturing(branch, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(cudaEventQuery(join) == cudaErrorCapturedEvent);
  REQUIRE(cudaGraphInstantiate(&held.exec, held.graph, 0) == cudaSuccess);
  CHECK(cudaGraphLaunch(held.exec, branch) == cudaSuccess);
  CHECK(cudaStreamSynchronize(branch) == cudaSuccess);
  CHECK(word == 18);

  begin(origin);  // a branch that nobody joins
  CHECK(cudaEventRecord(fork, origin) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(branch, fork, 0) == cudaSuccess);
  sim::launch(branch, [] {});
  cudaGraph_t none = held.graph;
  CHECK(cudaStreamEndCapture(branch, &none) == cudaErrorStreamCaptureUnmatched);
  CHECK(cudaStreamEndCapture(origin, &none) == cudaErrorStreamCaptureInvalidated);
  begin(origin);
  CHECK(cudaEventRecord(fork, origin) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(branch, fork, 0) == cudaSuccess);
  sim::launch(branch, [] {});
  CHECK(cudaStreamEndCapture(origin, &none) == cudaErrorStreamCaptureUnjoined);
  CHECK(none == nullptr);
}

TEST_CASE("Simulator: what cannot be captured makes the capture invalid until it ends", "[sim]") {
  Sim sim;
  SimStream stream, outside;
  SimEvent uncaptured, unrecorded;
  CHECK(cudaEventRecord(uncaptured, outside) == cudaSuccess);
  const std::pair<std::function<cudaError_t()>, cudaError_t> offences[] = {
      {[&] { return cudaStreamSynchronize(stream); }, cudaErrorStreamCaptureUnsupported},
      {[&] { return cudaStreamQuery(stream); }, cudaErrorStreamCaptureUnsupported},
      {[&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported},
      {[&] { return cudaStreamWaitEvent(stream, uncaptured, 0); }, cudaErrorStreamCaptureIsolation},
      {[&] {
         cudaEventRecord(unrecorded, stream);
         return cudaEventQuery(unrecorded);
       },
       cudaErrorCapturedEvent}};
  for (const auto& [offend, expected] : offences) {
    begin(stream);
    CHECK(sim::launch(stream, [] {}) == cudaSuccess);
    CHECK(offend() == expected);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CHECK(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK(sim::launch(stream, [] {}) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaEventRecord(uncaptured, stream) == cudaErrorStreamCaptureInvalidated);
    cudaGraph_t none = nullptr;
    CHECK(cudaStreamEndCapture(stream, &none) == cudaErrorStreamCaptureInvalidated);
    CHECK(none == nullptr);
    CHECK(sim::launch(stream, [] {}) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(cudaEventRecord(uncaptured, outside) == cudaSuccess);
  }
}

TEST_CASE("Simulator: a relaxed capture leaves the thread free, others guard it", "[sim]") {
  Sim sim;
  SimStream stream;
  SimGraph held;
  void* memory = nullptr;
  begin(stream);
  CHECK(cudaMalloc(&memory, 64) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaStreamEndCapture(stream, &held.graph) == cudaSuccess);
  cudaGraph_t none = nullptr;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cudaMalloc(&memory, 64) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(stream, &none) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == cudaStreamCaptureModeGlobal);
  CHECK(cudaMalloc(&memory, 64) == cudaSuccess);
  CHECK(cudaStreamEndCapture(stream, &none) == cudaSuccess);
  CHECK(cudaGraphDestroy(none) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
}
