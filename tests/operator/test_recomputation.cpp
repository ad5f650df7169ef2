// Which values are computed again instead of being kept, and which are not.
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/graph/detail/recomputable.h>
#include <sluice/operator/graph/detail/shapes_apart.h>

#include "tests/operator/recomputation_cases.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Sharing;
using graph::with_recomputation;

TEST_CASE("Without a budget, or with one that does, a graph stays what it is", "[graph][recomputation]") {
  const Chain chain(6);
  const Graph graph = optimised(chain.step);
  const std::size_t in_order = planned_bytes(graph, Sharing::in_order), proven = planned_bytes(graph, Sharing::proven);
  CHECK(in_order <= proven);
  CHECK(to_text(with_recomputation(graph, {.budget = 0})) == to_text(graph));
  CHECK(to_text(with_recomputation(graph, {.budget = in_order})) == to_text(graph));
  CHECK(to_text(with_recomputation(graph, {.budget = in_order - 1})) != to_text(graph));
  CHECK(with_recomputation({}, {.budget = 1}).nodes.empty());
  for (const std::size_t budget : {std::size_t{0}, proven, in_order, ~std::size_t{0}}) {
    CAPTURE(budget);
    const Plan plan(chain.step, {.memory_budget = budget});
    CHECK(plan.graph().nodes.size() == graph.nodes.size());
    CHECK(plan.memory().bytes == (budget == in_order ? in_order : proven));
    CHECK(plan.memory().bytes_without_budget == proven);
  }
  const Plan apart(chain.step, {.share_memory = false, .memory_budget = 1});
  CHECK(apart.memory().bytes == apart.memory().bytes_without_sharing);
  CHECK(apart.graph().nodes.size() == graph.nodes.size());
}

TEST_CASE("Cheap values are computed again before products are", "[graph][recomputation]") {
  const NDArray weight = draw({200, 200}, 1, cpu());
  const Graph graph = traced({draw({300, 200}, 2, cpu())}, [&](const Arrays& x) {
    const NDArray product = matmul(x[0], weight), wave = softmax(product);
    NDArray far = concat({wave, wave}, 1);
    for (int i = 0; i < 20; ++i)
      far = softmax(far);
    return Arrays{sum(mean(far) * wave), sum(log_softmax(product))};
  });
  const std::size_t whole = planned_bytes(graph, Sharing::in_order), one = 300 * 200 * sizeof(float);
  const Graph less = with_recomputation(graph, {.budget = whole - one});
  CHECK(planned_bytes(less, Sharing::in_order) <= whole - one);
  CHECK(count(less, "softmax") == count(graph, "softmax") + 1);
  CHECK(count(less, "matmul") == 1);
  const Graph least = with_recomputation(graph, {.budget = 1});
  CHECK(planned_bytes(least, Sharing::in_order) <= planned_bytes(less, Sharing::in_order) - one / 2);
  CHECK(count(least, "matmul") == 2);
}

namespace {

constexpr int k_far = 12;

// One number.
NDArray far_from(const NDArray& x) {
  NDArray wide = concat({x, x, x});
  for (int i = 0; i < k_far; ++i)
    wide = softmax(wide);
  return mean(wide);
}

/// What is made early, 1000 numbers, and read late behind others that take more.
Graph with_late_reader(const std::function<NDArray(const NDArray&)>& early, const std::function<void()>& between = {}) {
  return traced({draw({1000}, 3, cpu())}, [&](const Arrays& x) {
    const NDArray kept = early(x[0]);
    const NDArray far = far_from(kept);
    if (between)
      between();
    return Arrays{far * kept};
  });
}

void check_runs(const Graph& graph, bool is_less, const std::function<void()>& before = {}) {
  const std::size_t whole = planned_bytes(graph, Sharing::in_order);
  const Graph less = with_recomputation(graph, {.budget = 1});
  CHECK((planned_bytes(less, Sharing::in_order) < whole) == is_less);
  CHECK((less.nodes.size() > graph.nodes.size()) == is_less);
  const Plan plain(graph, {.optimise = false, .share_memory = false});
  Plan plan(graph, {.memory_budget = 1});
  check_no_overlap(plan);
  Plan by_hand(graph, {.optimise = false, .share_memory = false});
  const NDArray x = draw({1000}, 3, cpu());
  std::vector<std::vector<std::string>> wanted, got;
  for (auto* const to : {&wanted, &got}) {
    Engine::current().seed(4);
    if (before)
      before();
    for (int run = 0; run < 3; ++run)
      to->push_back(all_bytes((to == &got ? plan : by_hand).run({&x, 1})));
  }
  CHECK((got == wanted));
}

}  // namespace

TEST_CASE("What is computed from what is there anyway is computed again", "[graph][recomputation]") {
  check_runs(with_late_reader([](const NDArray& x) { return tanh(x) * sin(x); }), true);
  check_runs(with_late_reader([](const NDArray& x) { return tanh(x).reshape({10, 100}).T().reshape({1000}); }), true);
  check_runs(
      with_late_reader([](const NDArray& x) {
        return concat({sin(x.slice(0, 0, 500)), cos(x.slice(0, 0, 500))});
      }),
      true);
}

TEST_CASE("Numbers that were drawn are kept", "[graph][recomputation]") {
  const autograd::TrainScope train;
  const auto drop = [](const NDArray& x) { return dropout(x, 0.5); };
  const auto draws = [](const NDArray& x) { return sluice::random::normal(0, 1, x.shape()); };
  check_runs(with_late_reader(drop), false);
  check_runs(with_late_reader(draws), false);
  // What comes of them is not.
  const Graph graph = with_late_reader([&](const NDArray& x) { return tanh(drop(x)) + draws(x); });
  CHECK(count(with_recomputation(graph, {.budget = 1}), "dropout") == 1);
}

TEST_CASE("What comes of memory that is written in between is kept", "[graph][recomputation]") {
  const NDArray state = draw({1000}, 5, cpu()), begin = state.copy();
  const auto again = [&] { copy_into(begin, state); };
  const auto write = [&] {
    NDArray target = state;
    target *= 0.5;
  };
  const auto early = [&](const NDArray& x) { return tanh(x + state); };
  check_runs(with_late_reader(early, write), false, again);
  check_runs(with_late_reader(early), true, again);
  // Written by who reads it late, and behind: the copy comes first.
  const Graph behind = traced({draw({1000}, 3, cpu())}, [&](const Arrays& x) {
    const NDArray kept = early(x[0]);
    const NDArray far = far_from(kept);
    NDArray target = state;
    target *= kept;
    return Arrays{far + 1.0};
  });
  check_runs(behind, true, again);
  // Of views of it, too.
  check_runs(
      with_late_reader(
          [&](const NDArray& x) {
            return tanh(x + state.reshape({10, 100}).reshape({1000}));
          },
          write),
      false,
      again);
}

TEST_CASE("Whatever is to be made again, what has changed since is not", "[graph][recomputation]") {
  const NDArray state = draw({1000}, 5, cpu()), begin = state.copy();
  for (const bool writes : {false, true}) {
    const Graph graph = with_shapes_apart(with_late_reader(
        [&](const NDArray& x) { return tanh(sin(x) + softmax(state)); },
        [&] {
          if (writes)
            copy_into(begin * 0.5, state);
        }));
    const graph::Recomputable known(graph, {.budget = 1, .keep_derived = false});
    const Graph again = recomputed(known, std::vector<bool>(graph.values.size(), true)).graph;
    CHECK(count(again, "tanh") == 2);
    CHECK(count(again, "sin") == 2);
    CHECK(count(again, "softmax") == k_far + (writes ? 1 : 2));
    const NDArray x = draw({1000}, 3, cpu());
    std::vector<std::vector<std::string>> got;
    for (const Graph* const one : {&graph, &again}) {
      copy_into(begin, state);
      Plan plan(*one, {.optimise = false, .keep_derived = false, .share_in_order = true});
      got.push_back(all_bytes(plan.run({&x, 1})));
    }
    CHECK((got[0] == got[1]));
  }
}

TEST_CASE("What is written in place is kept, and what was read before", "[graph][recomputation]") {
  check_runs(
      with_late_reader([](const NDArray& x) {
        NDArray made = tanh(x);
        made.slice(0, 100, 200).assign(x.slice(0, 0, 100));
        return made;
      }),
      false);
}

TEST_CASE("A copy of batch norm leaves running statistics alone", "[graph][recomputation]") {
  const NDArray gamma = draw({10}, 6, cpu()), beta = draw({10}, 7, cpu());
  const NDArray mean = zeros({10}), var = full({10}, 1.0f);
  const autograd::TrainScope train;
  const Graph graph = with_late_reader([&](const NDArray& x) {
    return batch_norm(x.reshape({100, 10}), gamma, beta, mean, var).reshape({1000});
  });
  CHECK(count(with_recomputation(graph, {.budget = 1}), "batch_norm") == 2);
  std::vector<std::vector<std::string>> statistics;
  const auto again = [&] {
    statistics.push_back(all_bytes({mean, var}));
    mean.assign(zeros({10}));
    var.assign(full({10}, 1.0f));
  };
  check_runs(graph, true, again);
  again();
  REQUIRE(statistics.size() == 3);  // before, behind the one plan, behind the other
  CHECK(statistics[1] == statistics[2]);
  CHECK(statistics[1] != statistics[0]);
}

// Called by its name so: it writes none of them.
TEST_CASE("Batch norm by running statistics is not computed again by others", "[graph][recomputation]") {
  const NDArray gamma = draw({10}, 6, cpu()), beta = draw({10}, 7, cpu());
  const NDArray mean = draw({10}, 8, cpu()), var = full({10}, 3.0f);
  const Operator& op = *find_operator("batch_norm");
  const Graph graph = with_late_reader([&](const NDArray& x) {
    const Attributes how = parse_attributes(op, "batch_stats=false");
    return invoke(op, Arrays{x.reshape({100, 10}), gamma, beta, mean, var}, how, SourceLocation::current())[0].reshape(
        {1000});
  });
  check_runs(graph, false);
}

TEST_CASE("What a plan runs once or keeps from run to run is not computed again", "[graph][recomputation]") {
  check_runs(with_late_reader([](const NDArray& x) { return sqrt(full({1000}, 2.0)) + 0.0 * x; }), true);
  const NDArray table = draw({1000}, 8, cpu());
  const Graph graph = with_late_reader([&](const NDArray& x) { return x + softmax(table); });
  CHECK(count(with_recomputation(graph, {.budget = 1}), "softmax") == k_far + 1);
  const Plan plan(graph, {.memory_budget = 1});
  CHECK(plan.memory().bytes_derived == 4000);
  check_runs(graph, true);
  CHECK(count(with_recomputation(graph, {.budget = 1, .keep_derived = false}), "softmax") == k_far + 2);
}

TEST_CASE("Nodes of a program stay as they are if copies belong behind it", "[graph][recomputation]") {
  const Graph graph = with_late_reader([](const NDArray& x) { return tanh(x) * sin(x); });
  for (std::size_t program = 1; program <= graph.nodes.size(); ++program) {
    CAPTURE(program);
    const Graph less = with_recomputation(graph, {.budget = 1, .program = program});
    REQUIRE(less.nodes.size() >= graph.nodes.size());
    for (std::size_t at = 0; at < program; ++at) {
      CHECK(less.nodes[at].op == graph.nodes[at].op);
      CHECK(less.nodes[at].inputs == graph.nodes[at].inputs);
    }
    CHECK((less.nodes.size() > graph.nodes.size()) == (program > 3 && program < graph.nodes.size()));
  }
}

TEST_CASE("Arrays of no elements and graphs that give nothing back take any budget", "[graph][recomputation]") {
  const Graph empty = traced({zeros({0, 5})}, [](const Arrays& x) {
    const NDArray kept = tanh(x[0]);
    return Arrays{far_from(kept) * kept};
  });
  Plan plan(empty, {.memory_budget = 1});
  CHECK(plan.memory().bytes == 4);  // of a mean
  const NDArray nothing = zeros({0, 5});
  CHECK(plan.run({&nothing, 1})[0].shape() == Shape{0, 5});
  const Graph outputs = traced({draw({1000}, 3, cpu())}, [](const Arrays& x) { return Arrays{sin(x[0]), cos(x[0])}; });
  CHECK(Plan(outputs, {.memory_budget = 1}).memory().bytes == 8000);
}
