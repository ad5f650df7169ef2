// Errors that kernels find while a plan runs name the call of the program that it was: its operator, line and layer.
#include <string>
#include <vector>

#include <sluice/engine/origin.h>
#include <sluice/operator/api.h>

#include "tests/engine/expect.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Plan;
using graph::PlanSegment;
using graph::Tracer;

namespace {

NDArray looped(const NDArray& x) {
  const NDArray turns = zeros({64}, {.device = x.device()});
  return foreach(
             [](const Arrays& entry, const Arrays& state) -> LoopResult {
               return {{}, {state[0] + entry[0]}};
             },
             {turns},
             {x})
      .states[0];
}

/// Two rows taken, of the second table by the second indices; each on a line of its own.
struct Takes {
  int first = 0, second = 0;
  graph::Graph graph;

  explicit Takes(Device device, bool cut = false) {
    const NDArray tables[] = {arange(0, 8, 1, {.device = device}), arange(0, 8, 1, {.device = device})};
    Tracer tracer;
    const NDArray a = tracer.input({{3}, int32, device}), b = tracer.input({{3}, int32, device});
    graph = tracer.trace([&] {
      first = __LINE__ + 1;
      const NDArray one = take(tables[0].reshape({4, 2}), a);
      const NDArray between = cut ? looped(one) : one * 2.0;
      const OriginScope scope(&Origin::of("layer 7 (Rows)", {"train.cpp", 31}));
      second = __LINE__ + 1;
      const NDArray other = take(tables[1].reshape({4, 2}), b);
      return Arrays{between + other};
    });
  }
};

void check_errors(Device device, const graph::PlanOptions& options) {
  const Takes takes(device);
  Plan plan(takes.graph, options);
  const NDArray good = array<std::int32_t>({0, 3, 1}, {3}, device), bad = array<std::int32_t>({0, 9, 1}, {3}, device);
  const auto run = [&](const NDArray& a, const NDArray& b) {
    const NDArray inputs[] = {a, b};
    return text_of_error([&] { (void)plan.run(inputs)[0].to_vector<float>(); });
  };
  for (int round = 0; round < 3; ++round) {  // by hand, captured, replayed
    CAPTURE(round);
    CHECK(run(good, good) == "");
    const std::string second = run(good, bad);
    CHECK_THAT(second, contains("9") && contains("in task \"take") && contains("layer 7 (Rows)"));
    CHECK_THAT(second, contains(message("test_plan_errors.cpp:", takes.second)) && contains("train.cpp:31"));
    const std::string first = run(bad, good);
    CHECK_THAT(first, contains("9") && contains("in task \"take"));
    CHECK_THAT(first, contains(message("test_plan_errors.cpp:", takes.first)) && !contains("layer 7"));
  }
  CHECK(run(good, good) == "");
}

}  // namespace

TEST_CASE("An error in a plan names the operator and the line of the program", "[graph]") {
  check_errors(cpu(), {});
  check_errors(cpu(), {.optimise = false, .share_memory = false});
}

TEST_CASE("An error in a plan on a GPU names the operator and the line of the program", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_errors(gpu(0), {});
  check_errors(gpu(0), {.optimise = false, .share_memory = false});
}

TEST_CASE("A plan says how its run is cut, and which call is why", "[graph]") {
  const std::vector<PlanSegment> all = Plan(Takes(cpu()).graph).segments();
  REQUIRE(all.size() == 1);
  CHECK_FALSE(all[0].captured);
  CHECK(all[0].reason == "runs on a CPU");
  CHECK(Plan(Takes(cpu()).graph).counts().captured == 0);
}

TEST_CASE("A plan on a GPU says which call ends a CUDA graph, its line, and why", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Takes takes(gpu(0), true);
  Plan plan(takes.graph);
  const std::vector<PlanSegment> all = plan.segments();
  REQUIRE(all.size() == 3);
  CHECK(all[0].captured);
  CHECK_FALSE(all[1].captured);
  CHECK(all[2].captured);
  CHECK(all[1].op == "foreach");
  CHECK(all[1].calls == 1);
  CHECK(all[1].reason == "works on the host each time it runs");
  CHECK(all[1].site.line < takes.first);  // of looped()
  const std::string text = to_string(all);
  CHECK_THAT(text, contains("segment 1: ") && contains("as one CUDA graph"));
  CHECK_THAT(
      text, contains("segment 2: 1 call one by one: foreach works on the host") && contains("test_plan_errors.cpp:"));
  const NDArray good = array<std::int32_t>({0, 3, 1}, {3}, gpu(0));
  const NDArray inputs[] = {good, good};
  for (int run = 0; run < 4; ++run)
    (void)plan.run(inputs)[0].to_vector<float>();
  const RegionCounts counts = plan.counts();
  CHECK(counts.captured >= 2);
  CHECK(counts.launched >= counts.captured);
  CHECK(counts.in_order == 0);
}
