// Plans that compute values again instead of keeping them: less memory, the same bits.
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/operator/random_program.h"
#include "tests/operator/recomputation_cases.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::PlanOptions;

TEST_CASE("A chain of 32 layers takes the memory that it is given, and gives the same bits", "[graph][recomputation]") {
  Chain chain(32);
  const auto wanted = chain.run({});
  const Plan kept(chain.step);
  const std::size_t all = kept.memory().bytes;
  CHECK(all > 31 * Chain::k_bytes);
  CHECK(kept.memory().bytes_without_budget == all);
  std::size_t last = all;
  for (const std::size_t layers : {31u, 24u, 18u, 14u, 13u}) {
    CAPTURE(layers);
    const PlanOptions options{.memory_budget = layers * Chain::k_bytes};
    const Plan plan(chain.step, options);
    CHECK(plan.memory().bytes <= options.memory_budget);
    CHECK(plan.memory().bytes <= last);
    CHECK(plan.memory().bytes_without_budget == all);
    check_no_overlap(plan);
    CHECK((chain.run(options) == wanted));
    last = plan.memory().bytes;
  }
  const Plan least(chain.step, {.memory_budget = 1});
  CHECK(least.memory().bytes <= 11 * Chain::k_bytes);
  CHECK((chain.run({.memory_budget = 1}) == wanted));
}

namespace {

/// Random programs and, where they have some, their gradients; budgets from next to nothing to what they take.
void check_programs(Device device, int programs, unsigned seed) {
  std::size_t again = 0, with_gradients = 0, less = 0;
  for (int i = 0; i < programs; ++i) {
    CAPTURE(seed, i);
    const RandomProgram program(seed + static_cast<unsigned>(i), device);
    const auto body = [&](const Arrays& inputs) {
      std::vector<NDArray> variables(inputs.begin(), inputs.end());
      for (NDArray& variable : variables)
        variable.attach_grad();
      Arrays made;
      {
        const autograd::RecordScope record;
        made = program.run(inputs);
      }
      const std::vector<NDArray> heads(made.begin(), made.end());
      for (const NDArray& gradient : autograd::grad(heads, variables, {}))
        made.push_back(gradient);
      return made;
    };
    Graph graph;
    try {
      graph = traced(program.inputs(), body);
      ++with_gradients;
    } catch (const AutogradError&) {  // written in place where a gradient needs it, or none goes there
      graph = traced(program.inputs(), [&](const Arrays& inputs) { return program.run(inputs); });
    }
    Plan plain(graph, {.optimise = false, .share_memory = false});
    const auto wanted = all_bytes(plain.run(program.inputs()), true);
    const std::size_t whole = Plan(graph).memory().bytes;
    std::mt19937 draw(seed + static_cast<unsigned>(i));
    for (int budgets = 0; budgets < 2; ++budgets) {
      const PlanOptions options{.optimise = draw() % 4 != 0, .memory_budget = 1 + draw() % (whole + 1)};
      Plan plan(graph, options);
      CHECK((!options.optimise || plan.memory().bytes <= whole));
      CHECK(plan.memory().bytes <= plan.memory().bytes_without_budget);
      check_no_overlap(plan);
      less += plan.memory().bytes < plan.memory().bytes_without_budget;
      again += plan.graph().nodes.size() > (options.optimise ? optimised(graph) : graph).nodes.size();
      for (int run = 0; run < 2; ++run)
        REQUIRE((all_bytes(plan.run(program.inputs()), true) == wanted));
    }
  }
  CHECK(with_gradients > static_cast<std::size_t>(programs) / 4);
  CHECK(less > static_cast<std::size_t>(programs) / 4);
  CHECK(again > static_cast<std::size_t>(programs) / 10);
}

}  // namespace

TEST_CASE("Random programs give the same bits within random budgets", "[graph][recomputation]") {
  check_programs(cpu(), 200, 1000);
}

TEST_CASE("Random programs on a GPU give the same bits within random budgets", "[graph][recomputation][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_programs(gpu(0), 40, 5000);
}

TEST_CASE("Thousands of random programs within random budgets", "[graph][recomputation][.nightly]") {
  check_programs(cpu(), 5000, 200000);
}

TEST_CASE("A chain on a GPU gives the same bits in less memory", "[graph][recomputation][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Chain chain(12, gpu(0));
  const auto wanted = chain.run({});
  for (const std::size_t layers : {9u, 6u, 1u})
    CHECK((chain.run({.memory_budget = layers * Chain::k_bytes}) == wanted));
}

TEST_CASE("Tasks in any order keep what is computed again apart", "[graph][recomputation]") {
  for (const CpuMode mode : {CpuMode::pool, CpuMode::serial, CpuMode::chaos, CpuMode::chaos_pool}) {
    Engine engine({.workers = 3, .cpu_policy = mode, .seed = 5});
    const EngineScope here(engine);
    Chain chain(10);
    const auto wanted = chain.run({});
    for (const std::size_t layers : {7u, 5u, 1u})
      CHECK((chain.run({.memory_budget = layers * Chain::k_bytes}) == wanted));
  }
}

namespace {

void run_from_threads(Device device) {
  const NDArray weight = draw({30, 30}, 1, device);
  const Graph graph = traced({draw({20, 30}, 2, device)}, [&](const Arrays& x) {
    std::vector<NDArray> layers{x[0]};
    for (int i = 0; i < 10; ++i)
      layers.push_back(tanh(matmul(layers.back(), weight)));
    NDArray sums = layers.back();
    for (int i = 9; i > 0; --i)
      sums = softmax(sums) * layers[static_cast<std::size_t>(i)];
    return Arrays{sums};
  });
  Plan plain(graph, {.optimise = false, .share_memory = false}), plan(graph, {.memory_budget = 1});
  CHECK(plan.memory().bytes < plan.memory().bytes_without_budget);
  std::vector<NDArray> inputs;
  std::vector<std::vector<float>> wanted;
  for (std::uint64_t i = 0; i < 8; ++i) {
    inputs.push_back(draw({20, 30}, 10 + i, device));
    wanted.push_back(plain.run({&inputs.back(), 1})[0].to_vector<float>());
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  Engine& engine = Engine::current();
  for (std::size_t t = 0; t < 5; ++t) {
    threads.emplace_back([&, t] {
      const EngineScope here(engine);
      for (std::size_t run = 0; run < 24; ++run) {
        const std::size_t at = (t + run) % inputs.size();
        wrong += plan.run({&inputs[at], 1})[0].to_vector<float>() != wanted[at];
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("Many threads run one plan within a budget", "[graph][recomputation][concurrent]") {
  run_from_threads(cpu());
}
TEST_CASE("Many threads run one plan within a budget on a GPU", "[graph][recomputation][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  run_from_threads(gpu(0));
}

TEST_CASE("After an error in what is computed again the next run is whole", "[graph][recomputation]") {
  Engine engine({.workers = 2});
  const EngineScope here(engine);
  const NDArray table = draw({4, 250}, 9, cpu());
  const Graph graph = traced({array<std::int32_t>({0, 3, 1, 2})}, [&](const Arrays& rows) {
    const NDArray kept = take(table, rows[0]).reshape({1000});
    NDArray far = kept;
    for (int i = 0; i < 12; ++i)
      far = softmax(far);
    return Arrays{far * kept};
  });
  Plan plan(graph, {.memory_budget = 1});
  CHECK(count(plan.graph(), "take") == 2);
  const NDArray good = array<std::int32_t>({0, 3, 1, 2}), bad = array<std::int32_t>({0, 3, 1, 4});
  const auto wanted = plan.run({&good, 1})[0].to_vector<float>();
  const NDArray failed = plan.run({&bad, 1})[0];
  CHECK(text_of_error([&] { failed.to_vector<float>(); }).find("test_recomputed_runs.cpp") != std::string::npos);
  CHECK(plan.run({&good, 1})[0].to_vector<float>() == wanted);
  CHECK_THROWS_AS(engine.wait_all(), IndexError);  // of the copy, for which nobody waited
}
