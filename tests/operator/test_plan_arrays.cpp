// Plans use the arrays that they are given where they lie, and hand out those that they made.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/engine/expect.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

namespace {

/// Two inputs of (4, 3); a view of an input, views of a result, a result twice, an input handed through.
Graph program_of_views(Device device) {
  Tracer tracer;
  const NDArray x = tracer.input({{4, 3}, float32, device}), y = tracer.input({{4, 3}, float32, device});
  return tracer.trace([&] {
    const NDArray sums = x.reshape({12}) * 2.0 + y.transpose().reshape({12});
    const NDArray turned = exp(-square(y)).transpose();
    return Arrays{sums.reshape({3, 4}), sums, turned, sums, turned.reshape({12}), x, x.reshape({2, 6})};
  });
}

std::vector<std::vector<float>> values_of(const Arrays& arrays) {
  std::vector<std::vector<float>> values;
  for (const NDArray& array : arrays)
    values.push_back(array.to_vector<float>());
  return values;
}

// Arrays that come again, new ones, parts of others, some that lie otherwise; results that are kept and that are not.
void run_with_many_arrays(Device device) {
  const Graph graph = program_of_views(device);
  Plan plan(graph);
  std::mt19937 random(7);
  const auto fresh = [&] { return sluice::random::normal(0, 1, {8, 3}, {.device = device}); };
  std::vector<NDArray> pool;
  for (int i = 0; i < 3; ++i)
    pool.push_back(fresh());
  const auto choose = [&]() -> NDArray {
    const NDArray& one = pool[random() % pool.size()];
    switch (random() % 5) {
      case 0:
        return fresh().slice(0, 0, 4);
      case 1:
        return one.slice(0, 4, 8);
      case 2:
        return one.reshape({3, 8}).slice(1, 2, 6).transpose();
      default:
        return one.slice(0, 0, 4);
    }
  };
  std::vector<std::pair<Arrays, std::vector<std::vector<float>>>> kept;
  for (int run = 0; run < 80; ++run) {
    const NDArray x = choose(), y = run % 7 == 0 ? x : choose();
    const NDArray inputs[] = {x, y};
    const auto wanted = values_of(graph::evaluate(graph, inputs));
    Arrays got = plan.run(inputs);
    REQUIRE(got[5].same(x));
    got[5] = x.copy();
    if (run % 3 == 0) {
      NDArray again = x;  // the run is under way perhaps; it has read x or goes first
      again += 1.0;
    }
    REQUIRE(values_of(got) == wanted);
    if (run % 3 == 1 && kept.size() < 12)
      kept.emplace_back(Arrays{got[0], got[3], got[4]}, std::vector{wanted[0], wanted[3], wanted[4]});
  }
  for (const auto& [arrays, wanted] : kept)
    CHECK(values_of(arrays) == wanted);
}

}  // namespace

TEST_CASE("A plan reads what it is given where it lies, and its results stay what they are", "[graph]") {
  run_with_many_arrays(cpu());
}

TEST_CASE("A plan on a GPU reads what it is given where it lies, and its results stay", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  run_with_many_arrays(gpu(0));
}

namespace {

// The input is memory that the graph writes: it counts as it was before.
void run_on_its_own_constant(Device device) {
  const NDArray weight = full({5}, 1.0f, {.device = device});
  Tracer tracer;
  const NDArray x = tracer.input({{5}, float32, device});
  Plan plan(tracer.trace([&] {
    NDArray updated = weight;
    updated += x;
    return Arrays{x * 10.0};
  }));
  for (int run = 0; run < 4; ++run) {
    const float before = weight.to_vector<float>()[0];
    const NDArray got = plan.run({&weight, 1})[0];
    CHECK(got.to_vector<float>() == std::vector<float>(5, 10 * before));
    CHECK(weight.to_vector<float>() == std::vector<float>(5, 2 * before));
  }
}

}  // namespace

TEST_CASE("An input may be what the plan writes", "[graph]") {
  run_on_its_own_constant(cpu());
}
TEST_CASE("An input may be what the plan on a GPU writes", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  run_on_its_own_constant(gpu(0));
}

TEST_CASE("Results of a plan are memory of their own: without a copy, and not kept by the plan", "[graph]") {
  const Graph graph = program_of_views(cpu());
  Plan plan(graph);
  const NDArray x = full({4, 3}, 1.0f), inputs[] = {x, x};
  const Arrays first = plan.run(inputs), second = plan.run(inputs);
  const auto memory = [](const NDArray& array) { return array.object()->buffer; };
  CHECK(memory(first[0]) == memory(first[1]));  // a view, as by hand
  CHECK(memory(first[0]) != memory(second[0]));
  CHECK(memory(first[5]) == memory(x));
  CHECK(memory(first[0])->use_count() == 2);  // two views: the plan has none
  NDArray sums = first[1];
  sums += 1.0;
  CHECK(second[1].to_vector<float>() == std::vector<float>(12, 3));
  CHECK(plan.run(inputs)[1].to_vector<float>() == std::vector<float>(12, 3));
}

namespace {

void run_from_threads(Device device) {
  const Graph graph = program_of_views(device);
  Plan plan(graph);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  Engine& engine = Engine::current();
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const EngineScope here(engine);
      for (int run = 0; run < 40; ++run) {
        const NDArray x = full({4, 3}, t + run * 0.5f, {.device = device}), inputs[] = {x, x};
        const std::vector<float> sums = plan.run(inputs)[1].to_vector<float>();
        wrong += sums != std::vector<float>(12, 3 * (t + run * 0.5f));
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("Many threads run one plan", "[graph][concurrent]") {
  run_from_threads(cpu());
}
TEST_CASE("Many threads run one plan on a GPU", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  run_from_threads(gpu(0));
}

namespace {

// Memory of results serves again, and never while somebody has them, or a view of them.
void give_results_again(Device device) {
  Tracer tracer;
  const NDArray x = tracer.input({{2, 3}, float32, device});
  const Graph graph = tracer.trace([&] { return Arrays{x * 2.0, exp(x)}; });
  Plan plan(graph, {.keep_results = true});
  const auto run = [&](float value) {
    const NDArray inputs[] = {full({2, 3}, value, {.device = device})};
    return plan.run(inputs);
  };
  const auto place = [](const NDArray& array) { return array.object()->data(); };
  const std::byte* const first = place(run(1)[0]);
  CHECK(place(run(2)[0]) == first);
  std::vector<Arrays> held;
  for (int i = 0; i < 5; ++i)
    held.push_back(run(static_cast<float>(i)));
  const NDArray view = run(7)[0].slice(0, 1, 2);
  const NDArray second = run(8)[1];
  run(9);
  for (std::size_t i = 0; i < held.size(); ++i)
    CHECK(held[i][0].to_vector<float>() == std::vector<float>(6, 2 * static_cast<float>(i)));
  CHECK(view.to_vector<float>() == std::vector<float>(3, 14));
  CHECK(second.to_vector<float>() == exp(full({6}, 8.0f, {.device = device})).to_vector<float>());
  // What was written there meanwhile is nothing to the next run.
  held.clear();
  {
    NDArray mine = run(3)[0];
    mine += 1.0;
    CHECK(mine.to_vector<float>() == std::vector<float>(6, 7));
  }
  CHECK(run(4)[0].to_vector<float>() == std::vector<float>(6, 8));
  // Nor does it look like another array's to who records.
  NDArray z = full({2, 3}, 5.0f, {.device = device});
  z.attach_grad();
  {
    NDArray mine = run(3)[0];
    const autograd::RecordScope record;
    mine += z;
    mine.backward();
  }
  CHECK(z.grad().to_vector<float>() == std::vector<float>(6, 1));
  CHECK(run(4)[0].to_vector<float>() == std::vector<float>(6, 8));
}

TEST_CASE("A plan keeps no large results", "[graph]") {
  Tracer tracer;
  const NDArray x = tracer.input({{300, 300}, float32, cpu()});
  Plan plan(tracer.trace([&] { return Arrays{x + x}; }), {.keep_results = true});
  const NDArray inputs[] = {full({300, 300}, 1.0f)};
  CHECK(plan.run(inputs)[0].object()->buffer->use_count() == 1);
}

}  // namespace

TEST_CASE("A plan's small results have memory that serves again once nobody has them", "[graph]") {
  give_results_again(cpu());
}
TEST_CASE("A plan's small results on a GPU have memory that serves again", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  give_results_again(gpu(0));
}
