// What a plan says and does of a CUDA graph that came to nothing.
#include <functional>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/cuda_sim/sim.h"

using namespace sluice;
using namespace sluice::test;

namespace {

Specs same_as_x(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return {inputs[0]};
}

// A capture ends by it.
void ask_stream(const KernelCall& call) {
  cudaStreamQuery(static_cast<cudaStream_t>(call.queue.stream()));
  cudaGetLastError();
}

void ask_and_copy(const KernelCall& call) {
  ask_stream(call);
  const TensorView &from = call.inputs[0], &to = call.outputs[0];
  cudaMemcpyAsync(
      to.data,
      from.data,
      static_cast<std::size_t>(from.size) * sizeof(float),
      cudaMemcpyDeviceToDevice,
      static_cast<cudaStream_t>(call.queue.stream()));
}

constinit const Operator k_asks_and_copies{
    .name = "asks_and_copies", .infer = same_as_x, .kernels = {on_gpu(ask_and_copy)}};
constinit const Operator k_asks{.name = "asks", .infer = same_as_x, .kernels = {on_gpu(ask_stream)}};

}  // namespace

TEST_CASE("A plan names the call that kept a CUDA graph from being captured, and its line", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  graph::Tracer tracer;
  const NDArray a = tracer.input({{3}, float32, gpu(0)});
  int line = 0;
  const graph::Graph graph = tracer.trace([&] {
    const NDArray twice = sum(a) * 2.0;
    line = __LINE__ + 1;
    const NDArray asked = invoke_one(k_asks, {twice}, {}, SourceLocation::current());
    return Arrays{sum(asked)};
  });
  graph::Plan plan(graph);
  CHECK(plan.segments().at(0).captured);
  const NDArray inputs[] = {ones({3}, {.device = gpu(0)})};
  for (int run = 0; run < 3; ++run)
    plan.run(inputs)[0].wait_to_read();
  const std::vector<graph::PlanSegment> all = plan.segments();
  REQUIRE(all.size() == 1);
  CHECK_FALSE(all[0].captured);
  CHECK(all[0].op == "asks");
  CHECK(all[0].site.line == line);
  CHECK(all[0].reason == "did what a capture does not take");
  CHECK(plan.counts().in_order > 0);
}

namespace {

/// exp(x), a branch, and what follows it; `side` is what its first side does.
graph::Graph branched(const std::function<NDArray(const NDArray&)>& side) {
  graph::Tracer tracer;
  const NDArray x = tracer.input({{3}, float32, gpu(0)}), predicate = tracer.input({{}, int32, gpu(0)});
  return tracer.trace([&] {
    const NDArray y = cond(
        predicate,
        [&](const Arrays& in) { return Arrays{side(in[0])}; },
        [](const Arrays& in) { return Arrays{in[0] - 1}; },
        {exp(x)})[0];
    return Arrays{sum(y) * 2.0};
  });
}

/// Runs that choose this side and that one, and give what they should.
void run_branches(graph::Plan& plan) {
  for (int run = 0; run < 6; ++run) {
    const NDArray inputs[] = {zeros({3}, {.device = gpu(0)}), full({}, run % 2, {.dtype = int32, .device = gpu(0)})};
    const float expected = run % 2 == 1 ? 6 : 0;
    CHECK(plan.run(inputs)[0].item<float>() == expected);
  }
}

void check_cut(const graph::Plan& plan) {
  const std::vector<graph::PlanSegment> all = plan.segments();
  INFO(to_string(all));
  REQUIRE(all.size() == 3);
  CHECK(all[0].captured);
  CHECK_FALSE(all[1].captured);
  CHECK(all[1].op == "cond");
  CHECK(all[1].reason == "was part of what CUDA makes no graph of");
  CHECK(all[2].captured);
  CHECK(plan.counts().in_order == 0);
  CHECK(plan.counts().captured >= 2);
}

}  // namespace

TEST_CASE("Where a side cannot be captured, the plan is cut at the branch alone", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  graph::Plan plan(
      branched([](const NDArray& x) { return invoke_one(k_asks_and_copies, {x}, {}, SourceLocation::current()); }));
  CHECK(plan.segments().size() == 1);
  run_branches(plan);
  check_cut(plan);
}

TEST_CASE("Where CUDA refuses a graph with a branch, the plan is cut at the branch alone", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const graph::Graph graph = branched([](const NDArray& x) { return x * 1; });
  for (const char* call : {"cudaGraphConditionalHandleCreate", "cudaGraphAddNode", "cudaStreamBeginCaptureToGraph"}) {
    CAPTURE(call);
    graph::Plan plan(graph);
    sim::fail_nth(call, 1, cudaErrorNotSupported);
    run_branches(plan);
    CHECK(sim::failed_call() == call);
    check_cut(plan);
  }
  graph::Plan plan(graph);
  sim::fail_nth("cudaGraphInstantiate", 1, cudaErrorNotSupported);
  run_branches(plan);
  check_cut(plan);
  graph::Plan whole(graph);
  run_branches(whole);
  CHECK(whole.segments().size() == 1);
}
