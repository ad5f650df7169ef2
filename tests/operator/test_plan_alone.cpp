// A plan's CUDA graph launched without the engine, for benchmarks: it does what a run does, as often as it is launched.
#include <sluice/operator/api.h>
#include <sluice/operator/graph/detail/plan_access.h>

#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

graph::Graph counting(const NDArray& count, bool on_host) {
  graph::Tracer tracer;
  const NDArray x = tracer.input({{3}, float32, count.device()});
  return tracer.trace([&] {
    NDArray sum = count;
    sum += on_host ? x.to(cpu()).to(count.device()) : x;
    return Arrays{sum * 2.0};
  });
}

}  // namespace

TEST_CASE("What a plan has captured is launched alone, so many times", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray count = zeros({3}, {.device = gpu(0)});
  graph::Plan plan(counting(count, false));
  CHECK(graph::PlanAccess::seconds_alone(plan, 5) == 0);  // nothing has run
  const Arrays inputs{ones({3}, {.device = gpu(0)})};
  const Arrays results = plan.run(inputs);
  Engine::current().wait_all();
  REQUIRE(plan.segments().at(0).captured);
  CHECK(graph::PlanAccess::seconds_alone(plan, 5) > 0);
  CHECK(count.to_vector<float>() == std::vector<float>{6, 6, 6});
  CHECK(results[0].to_vector<float>() == std::vector<float>{12, 12, 12});
  CHECK(graph::PlanAccess::seconds_alone(plan, 0) == 0);
  CHECK(plan.run(inputs)[0].to_vector<float>() == std::vector<float>{14, 14, 14});
}

TEST_CASE("A plan that is no CUDA graph takes no time alone", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Device device : {cpu(), gpu(0)}) {
    const NDArray count = zeros({3}, {.device = device});
    graph::Plan plan(counting(count, device.is_gpu()));
    const Arrays inputs{ones({3}, {.device = device})}, results = plan.run(inputs);
    Engine::current().wait_all();
    CHECK(graph::PlanAccess::seconds_alone(plan, 5) == 0);
    CHECK(results[0].to_vector<float>() == std::vector<float>{2, 2, 2});
  }
}
