// What plans on a GPU keep of constants, where CUDA refuses a call, or a region its run: on the simulated GPU alone.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/region.h>

#include "tests/operator/derived_plans.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_sim/sim.h"

using namespace sluice;
using namespace sluice::test;
using graph::Plan;

namespace {

void wait_for_all() {
  try {
    Engine::current().wait_all();
  } catch (const Error&) {  // what was provoked
  }
}

// What the program gives; nothing if it fails.
template <class Call>
std::optional<std::vector<std::string>> result_of(const Call& call) {
  try {
    return all_bytes(call());
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The nth call of CUDA from now on, at which a plan is made and run.
void check_refused(int nth, cudaError_t error, bool keep) {
  CAPTURE(nth, error, keep);
  Engine engine;
  const EngineScope scope(engine);
  const NDArray x = draw({4, 5}, 1, gpu()), w = draw({4, 5}, 2, gpu());
  const Body body = [&](const Arrays& in) {
    return Arrays{in[0] * exp(w) + exp(full({4, 5}, 0.5, {.device = gpu()}))};
  };
  const graph::Graph graph = traced({x}, body);
  engine.wait_all();
  sim::fail_nth(nth, error);
  std::unique_ptr<Plan> plan;
  try {
    plan = std::make_unique<Plan>(graph, graph::PlanOptions{.optimise = false, .keep_derived = keep});
  } catch (const Error&) {
    return sim::fail_nth(0, cudaSuccess);
  }
  const auto run = [&] { return plan->run({&x, 1}); };
  result_of(run);
  sim::fail_nth(0, cudaSuccess);  // no longer
  wait_for_all();
  const auto wanted = result_of([&] { return body({x}); });
  if (!wanted)  // w is lost
    return;
  result_of(run);  // may still find what has failed
  for (int again = 0; again < 3; ++again)
    CHECK((result_of(run) == wanted));
}

}  // namespace

TEST_CASE("A call of CUDA that fails once does no lasting harm to a plan", "[graph][derived][gpu]") {
  for (const cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorInvalidValue}) {
    for (int nth = 1; nth <= 40; ++nth) {
      check_refused(nth, error, true);
      check_refused(nth, error, false);
    }
  }
}

TEST_CASE("A region that did not write a constant is seen by who keeps what comes of it", "[graph][derived][gpu]") {
  const NDArray x = draw({4, 5}, 1, gpu()), w = draw({4, 5}, 2, gpu()), step = draw({4, 5}, 3, gpu());
  const Body body = [&](const Arrays& in) { return Arrays{in[0] * exp(w)}; };
  const auto run = [&](Plan& plan) { return result_of([&] { return plan.run({&x, 1}); }); };
  Plan plan(traced({x}, body), {.optimise = false});
  Region region(Engine::current(), gpu(0), "update");
  const auto update = [&] {
    region.run(0, [&] {
      NDArray there = w;
      there += step;
    });
  };
  for (int i = 0; i < 3; ++i) {
    update();
    CHECK((run(plan) == all_bytes(body({x}))));
    wait_for_all();
    CHECK((run(plan) == all_bytes(body({x}))));
  }
  wait_for_all();
  step.assign(take(full({2, 5}, 0.0, {.device = gpu()}), array({0, 1, 7, 0}, gpu())));  // there is no row 7
  wait_for_all();
  update();
  wait_for_all();
  CHECK_FALSE(result_of([&] { return body({x}); }));
  CHECK_FALSE(run(plan));
  CHECK_FALSE(run(plan));
}
