// What a plan says of a CUDA graph that came to nothing.
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
