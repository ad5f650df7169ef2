// Memory of plans: nobody's results lie where another's are still needed, and nobody reads what nobody wrote.
#include <optional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/memory_plan.h>

#include "tests/operator/memory_overlaps.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::MemoryPlan;
using graph::Plan;
using graph::Sharing;
using graph::ValueId;

namespace {

Graph traced(const RandomProgram& program, Device device) {
  graph::Tracer tracer;
  Arrays abstract;
  for (const NDArray& input : program.inputs())
    abstract.push_back(tracer.input({input.shape(), input.dtype(), device}));
  return tracer.trace([&] { return program.run(abstract); });
}

MemoryPlan planned(const Graph& graph, Sharing sharing) {
  return plan_memory(graph, values_apart(graph), sharing);
}

std::size_t shared_values(const MemoryPlan& plan) {
  std::size_t values = 0;
  for (const auto& slot : plan.slot_of)
    values += slot ? 1 : 0;
  return values - plan.slots.size();
}

}  // namespace

TEST_CASE("Memory of random graphs is planned without an overlap, before the passes and after", "[graph][memory]") {
  std::size_t shared = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Graph before = traced(RandomProgram(seed, cpu()), cpu()), after = optimised(before);
    for (const Graph* graph : {&before, &after}) {
      for (const Sharing sharing : {Sharing::proven, Sharing::in_order}) {
        const MemoryPlan plan = planned(*graph, sharing);
        REQUIRE(memory_fault(*graph, plan, sharing) == "");
        shared += shared_values(plan);
      }
      REQUIRE(
          memory_fault(*graph, plan_memory(*graph, std::vector<bool>(graph->values.size())), Sharing::proven) == "");
    }
  }
  CHECK(shared > 1000);  // there was something to find
}

namespace {

/// The plan of one who overlooks a node.
MemoryPlan forgetful_plan(const Graph& graph, std::size_t overlooked, Sharing sharing) {
  Graph seen = graph;
  seen.nodes.erase(seen.nodes.begin() + static_cast<std::ptrdiff_t>(overlooked));
  return planned(seen, sharing);
}

}  // namespace

TEST_CASE("The checker of overlaps finds what a planner that overlooks a reader does", "[graph][memory]") {
  for (const Sharing sharing : {Sharing::proven, Sharing::in_order}) {
    std::size_t found = 0;
    for (unsigned seed = 0; seed < 60; ++seed) {
      const Graph graph = optimised(traced(RandomProgram(seed, cpu()), cpu()));
      bool any = false;
      for (std::size_t node = 0; node < graph.nodes.size(); ++node)
        any = any || memory_fault(graph, forgetful_plan(graph, node, sharing), sharing) != "";
      found += any ? 1 : 0;
    }
    CHECK(found >= 20);
  }
}

TEST_CASE("The checker of overlaps names values, node and slot", "[graph][memory]") {
  graph::Tracer tracer;
  const NDArray x = tracer.input({{4, 4}, float32, cpu()});
  const Graph graph = tracer.trace([&] {
    const NDArray a = matmul(x, x), b = matmul(x, a), c = matmul(b, x), beside = matmul(x, x.T());
    return Arrays{matmul(c, a) + matmul(beside, x)};
  });
  MemoryPlan plan = planned(graph, Sharing::proven);
  REQUIRE(memory_fault(graph, plan, Sharing::proven) == "");
  const auto result = [&](std::size_t node) { return graph.nodes[node].results[0].value; };
  const auto moved = [&](std::size_t from, std::size_t to) {
    MemoryPlan wrong = plan;
    wrong.slot_of[result(to)] = wrong.slot_of[result(from)];
    return wrong;
  };
  // a is read by the last product when c is made.
  CHECK_THAT(memory_fault(graph, moved(0, 2), Sharing::proven), contains("may still use the first"));
  CHECK_THAT(memory_fault(graph, moved(0, 2), Sharing::in_order), contains("may still use the first"));
  // b is over by the time of `beside` in the order of the nodes, not where both may run.
  std::size_t beside = 3;
  while (graph.nodes[beside].is_view())
    ++beside;
  CHECK_THAT(memory_fault(graph, moved(1, beside), Sharing::proven), contains("may still use the first"));
  CHECK(memory_fault(graph, moved(1, beside), Sharing::in_order) == "");
  plan.slots[*plan.slot_of[result(0)]].bytes = 63;
  CHECK_THAT(memory_fault(graph, plan, Sharing::proven), contains("does not fit"));
}

namespace {

void check_poisoned(Device device, int programs, unsigned seed) {
  for (int i = 0; i < programs; ++i) {
    CAPTURE(seed, i);
    const RandomProgram program(seed + static_cast<unsigned>(i), device);
    const Graph graph = traced(program, device);
    const auto wanted = all_bytes(program.run(program.inputs()));
    for (const bool in_order : {false, true}) {
      Plan plan(graph, {.share_in_order = in_order, .poison = true});
      for (int run = 0; run < 2; ++run)
        REQUIRE(all_bytes(plan.run(program.inputs())) == wanted);
    }
    Plan apart(graph, {.optimise = false, .share_memory = false, .poison = true});
    REQUIRE(all_bytes(apart.run(program.inputs())) == wanted);
  }
}

}  // namespace

TEST_CASE("Plans give the same in memory that is full of NaNs before each run", "[graph][memory]") {
  check_poisoned(cpu(), 150, 3000);
}

TEST_CASE("Plans on a GPU give the same in memory that is full of NaNs before each run", "[graph][memory][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_poisoned(gpu(0), 20, 8000);
}

namespace {

Specs infer_half(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return {inputs[0]};
}
// A kernel with a fault: it leaves the second half of its result unwritten.
void write_half(const KernelCall& call) {
  const float* x = call.inputs[0].as<const float>();
  float* const y = call.outputs[0].as<float>();
  for (std::int64_t i = 0; i < call.inputs[0].size / 2; ++i)
    y[i] = x[i];
}
constexpr Operator k_half{.name = "half_written", .inputs = 1, .infer = infer_half, .kernels = {on_cpu(write_half)}};

}  // namespace

TEST_CASE("What a kernel leaves unwritten shows in memory that is full of NaNs", "[graph][memory]") {
  graph::Tracer tracer;
  const NDArray x = tracer.input({{8}, float32, cpu()});
  const Graph graph =
      tracer.trace([&] { return Arrays{invoke_one(k_half, {x}, {}, SourceLocation::current()) + 0.5}; });
  const NDArray given = full({8}, 1.0f);
  Plan plan(graph, {.poison = true});
  const std::vector<float> got = plan.run({&given, 1})[0].to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK((got[i] != got[i]) == (i >= 4));
}
