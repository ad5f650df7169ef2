// Plans: what they give is what the program gives, run after run.
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/graph/memory_plan.h>

#include "tests/engine/expect.h"
#include "tests/operator/memory_overlaps.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

namespace {

ArraySpec spec(const Shape& shape, DType dtype = float32, Device device = cpu()) {
  return {shape, dtype, device};
}

}  // namespace

TEST_CASE("Random numbers of a plan are those that the program would have drawn", "[graph]") {
  const auto draw = [](const NDArray& x) {
    const autograd::TrainScope train;
    return Arrays{dropout(x, 0.5) + sluice::random::normal(0, 1, {40}), sluice::random::uniform({7})};
  };
  const NDArray x = full({40}, 1.0f);
  Engine engine({.seed = 5}), other({.seed = 5});
  std::vector<std::vector<float>> by_hand, planned;
  {
    const EngineScope scope(engine);
    const NDArray here = full({40}, 1.0f);
    for (int run = 0; run < 3; ++run) {
      for (const NDArray& drawn : draw(here))
        by_hand.push_back(drawn.to_vector<float>());
    }
  }
  {
    const EngineScope scope(other);
    const NDArray here = full({40}, 1.0f);
    Tracer tracer;
    const NDArray input = tracer.input(spec({40}));
    Plan plan(tracer.trace([&] { return draw(input); }));
    for (int run = 0; run < 3; ++run) {
      for (const NDArray& drawn : plan.run({&here, 1}))
        planned.push_back(drawn.to_vector<float>());
    }
  }
  CHECK(planned == by_hand);
}

TEST_CASE("Numbers that nobody uses are drawn all the same: those behind them stay what they are", "[graph]") {
  const auto program = [] {
    (void)sluice::random::uniform({5});
    return Arrays{sluice::random::uniform({3})};
  };
  std::vector<float> wanted;
  {
    Engine engine({.seed = 9});
    const EngineScope scope(engine);
    wanted = program()[0].to_vector<float>();
  }
  Engine engine({.seed = 9});
  const EngineScope scope(engine);
  Plan plan(Tracer().trace(program));
  CHECK(plan.run({})[0].to_vector<float>() == wanted);
}

TEST_CASE("An input that is written and returned comes back written, the caller's own does not change", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}));
  Plan plan(tracer.trace([&] {
    NDArray sums = x;
    sums += 1.0;
    return Arrays{sums, sums * 1.0};
  }));
  const NDArray given = array<float>({1, 2, 3});
  const Arrays got = plan.run({&given, 1});
  CHECK(got[0].to_vector<float>() == std::vector<float>{2, 3, 4});
  CHECK(got[1].to_vector<float>() == std::vector<float>{2, 3, 4});
  CHECK(given.to_vector<float>() == std::vector<float>{1, 2, 3});
}

TEST_CASE("What a run returned stays when the next run writes a constant again", "[graph]") {
  const NDArray kept = zeros({2});
  Tracer tracer;
  const NDArray x = tracer.input(spec({2}));
  Plan plan(tracer.trace([&] {
    copy_into(x * 2.0, kept);
    return Arrays{kept};
  }));
  const NDArray one = array<float>({1, 1}), two = array<float>({2, 2});
  const NDArray first = plan.run({&one, 1})[0];
  plan.run({&two, 1});
  CHECK(first.to_vector<float>() == std::vector<float>{2, 2});
  CHECK(kept.to_vector<float>() == std::vector<float>{4, 4});
}

TEST_CASE("A plan belongs to the engine that it is made for", "[graph]") {
  Engine other({.seed = 2});
  const Graph graph = Tracer().trace([] { return Arrays{full({3}, 2.0) + arange(0, 3)}; });
  Plan plan(graph, {}, other);
  const NDArray got = plan.run({})[0];
  CHECK(&got.engine() == &other);
  CHECK(got.to_vector<float>() == std::vector<float>{2, 3, 4});
}

TEST_CASE("A Tracer makes one graph, also where the program throws", "[graph]") {
  Tracer used;
  (void)used.input(spec({2}));
  CHECK_THROWS_AS(used.trace([]() -> Arrays { throw ValueError("stop"); }), ValueError);
  CHECK(text_of_error([&] { used.trace([] { return Arrays{}; }); }).find("used before") != std::string::npos);
  CHECK_THROWS_AS(used.input(spec({2})), ValueError);
}

TEST_CASE("After an error in a plan the next run is whole", "[graph]") {
  const NDArray table = array<float>({1, 2, 3, 4}, {4, 1});
  for (const bool share : {true, false}) {
    Tracer tracer;
    const NDArray rows = tracer.input(spec({2}, int32));
    Plan plan(
        tracer.trace([&] {
          const NDArray taken = take(table, rows);
          const NDArray wide = concat({taken, taken, taken}, 1);
          return Arrays{sum(softmax(wide) * 2.0 + sum(taken), {1})};
        }),
        {.share_memory = share});
    const NDArray good = array<std::int32_t>({0, 3}), bad = array<std::int32_t>({0, 9});
    const auto wanted = plan.run({&good, 1})[0].to_vector<float>();
    const NDArray failed = plan.run({&bad, 1})[0];
    CHECK_THROWS_AS(failed.to_vector<float>(), IndexError);
    CHECK(plan.run({&good, 1})[0].to_vector<float>() == wanted);
  }
}

namespace {

void check_programs(Device device, int programs, unsigned seed) {
  std::size_t fused = 0, with_many_results = 0;
  for (int i = 0; i < programs; ++i) {
    CAPTURE(seed, i);
    const RandomProgram program(seed + static_cast<unsigned>(i), device);
    Tracer tracer;
    Arrays abstract;
    for (const NDArray& input : program.inputs())
      abstract.push_back(tracer.input(spec(input.shape(), input.dtype(), device)));
    const Graph graph = tracer.trace([&] { return program.run(abstract); });
    REQUIRE(memory_fault(graph, plan_memory(graph, values_apart(graph)), graph::Sharing::proven) == "");
    Plan plan(graph), plain(graph, {.optimise = false, .share_memory = false});
    for (const graph::Node& node : plan.graph().nodes) {
      fused += node.op == &fused::k_fused ? 1 : 0;
      with_many_results += node.op == &fused::k_fused && node.results.size() > 1 ? 1 : 0;
    }
    for (int run = 0; run < 2; ++run) {
      const auto wanted = all_bytes(program.run(program.inputs()));
      REQUIRE(all_bytes(plan.run(program.inputs())) == wanted);
      REQUIRE(all_bytes(plain.run(program.inputs())) == wanted);
      REQUIRE(all_bytes(evaluate(graph, program.inputs())) == wanted);
    }
  }
  if (!fused::runs_on(device))
    return;
  CHECK(fused > static_cast<std::size_t>(programs));
  CHECK(with_many_results > static_cast<std::size_t>(programs) / 2);
}

}  // namespace

TEST_CASE("Random programs give as plans what they give by hand, to the last bit", "[graph]") {
  check_programs(cpu(), 400, 1000);
}

TEST_CASE("Random programs on a GPU give as plans what they give by hand, to the last bit", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_programs(gpu(0), 60, 5000);
}

// Both by tests/run --suite nightly; the second on a machine with a GPU, also from a bundle.
TEST_CASE("Ten thousand random programs as plans", "[graph][.nightly]") {
  check_programs(cpu(), 10000, 100000);
}

TEST_CASE("A thousand random programs as plans on a GPU", "[graph][gpu][hardware][.nightly]") {
  SLUICE_NEEDS_GPUS(1);
  check_programs(gpu(0), 1000, 300000);
}
