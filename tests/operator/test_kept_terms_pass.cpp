// Reductions whose terms others read too: the node that takes them in writes them down. Whether it pays is another
// question (test_reduction_rules.cpp): here all are taken that may be.
#include <sluice/operator/graph/extents.h>
#include <sluice/operator/graph/respecified.h>

#include "tests/operator/reduction_graphs.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::TakenReductions;

namespace {

Names nodes_of_all(const std::vector<ArraySpec>& specs, const Body& body) {
  return nodes_after(specs, body, TakenReductions::all);
}

}  // namespace

TEST_CASE("Terms that others read are written by the node that adds them up", "[fusion][reduction]") {
  CHECK(nodes_of_all({spec({40, 70})}, [](const auto& in) {
          const NDArray made = exp(in[0]) * 0.5;
          return Arrays{sum(made, {0}), made};
        }) == Names{"reduced(exp, multiply, sum)"});
  CHECK(nodes_of_all({spec({40, 70})}, [](const auto& in) {
          const NDArray made = exp(in[0]) * 0.5;
          return Arrays{softmax(made), mean(made, {1}, true)};
        }) == Names{"reduced(exp, multiply, mean)", "softmax"});
  // One call, and a view of it.
  CHECK(nodes_of_all({spec({40, 70})}, [](const auto& in) {
          const NDArray made = exp(in[0]);
          return Arrays{softmax(made.T()), max(made)};
        }).front() == "reduced(exp, max)");
}

TEST_CASE("Of two reductions of one chain the second reads what the first wrote", "[fusion][reduction]") {
  CHECK(nodes_of_all({spec({40, 70}), spec({70})}, [](const auto& in) {
          const NDArray made = relu(in[0] * in[1]);
          return Arrays{mean(made, {1}), variance(made, {1})};
        }) == Names{"reduced(multiply, relu, variance)", "mean"});
}

TEST_CASE("What a chain gives beside its terms is written on the way", "[fusion][reduction]") {
  CHECK(nodes_of_all({spec({40, 70})}, [](const auto& in) {
          const NDArray common = exp(in[0]);
          return Arrays{sum(common * 2.0), common + 1.0};
        }) == Names{"reduced(exp, multiply, add, sum)"});
  // Mean, and mean square distance from it, as by hand.
  CHECK(nodes_of_all({spec({40, 70})}, [](const auto& in) {
          const NDArray centred = in[0] - mean(in[0], {1}, true);
          return Arrays{centred / sqrt(mean(square(centred), {1}, true) + 1e-5)};
        })[1] == "reduced(subtract, square, mean)");
}

TEST_CASE("Rows and shapes of all kinds give the same with their terms written down", "[fusion][reduction]") {
  const auto rows = reduction_cases();
  std::size_t number = 0;
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{0, 4}, Shape{33, 5}, Shape{5, 300}, Shape{3, 4, 50}}) {
    for (const Shape& axes : sets_of_axes(shape.ndim())) {
      const ReductionCase& row = rows[number++ % rows.size()];
      if (shape.size() == 0 && !row.takes_nothing)
        continue;
      CAPTURE(row.name, shape, axes);
      CHECK(has_reduced(nodes_of_all({spec(shape), spec(shape)}, [&](const auto& in) {
        const NDArray made = in[0] * in[1];
        return Arrays{row.run(made, axes, number % 2 == 0), made, tanh(made)};
      })));
    }
  }
}

TEST_CASE("Terms that are written over before they are added up are not taken early", "[fusion][reduction]") {
  CHECK_FALSE(has_reduced(nodes_of_all({spec({8, 70}), spec({8, 70})}, [](const auto& in) {
    NDArray made = exp(in[0]) * 2.0;
    const NDArray before = softmax(made);
    made += softmax(in[1]);
    return Arrays{sum(made), before, made};
  })));
}

TEST_CASE("A sum goes early to where it is kept only if nobody looks there meanwhile", "[fusion][reduction]") {
  const auto check = [](bool looks, bool is_factor) {
    const NDArray kept = random_array({70}, 3), wanted = kept.copy();
    const auto body = [&](const NDArray& x, const NDArray& to) {
      const NDArray made = is_factor ? relu(x * to) : relu(x * 0.5);
      const NDArray seen = looks ? softmax(to) : softmax(x);
      const NDArray other = softmax(made);
      copy_into(sum(made, {0}), to);
      return Arrays{other, seen};
    };
    const Graph graph = traced({spec({90, 70})}, [&](const auto& in) { return body(in[0], kept); });
    const NDArray given = random_array({90, 70}, 1);
    Plan plan(graph, {.reductions = TakenReductions::all});
    CHECK(has_reduced(nodes_of(plan.graph())) == (!looks && !is_factor));
    for (int run = 0; run < 2; ++run) {
      CHECK(bits_of_all(plan.run({&given, 1})) == bits_of_all(body(given, wanted)));
      CHECK(bits_of(kept) == bits_of(wanted));
    }
  };
  check(false, false);
  check(true, false);
  check(false, true);
}

// The chain `late` would be read where its sum is, behind what came forward to where `early` is made.
TEST_CASE("What came forward is not read too late by a chain that goes back", "[fusion][reduction]") {
  const auto body = [](const NDArray& x, const NDArray& to) {
    const NDArray late = to * 2.0;
    const NDArray early = relu(x * 0.5);
    const NDArray total = sum(late);
    const NDArray other = softmax(early);
    copy_into(sum(early, {0}), to);
    return Arrays{total, other};
  };
  const NDArray kept = random_array({70}, 3), wanted = kept.copy();
  const Graph graph = traced({spec({90, 70})}, [&](const auto& in) { return body(in[0], kept); });
  const NDArray given = random_array({90, 70}, 1);
  Plan plan(graph, {.reductions = TakenReductions::all});
  CHECK(nodes_of(plan.graph()) == Names{"multiply", "reduced(multiply, relu, sum)", "sum", "softmax"});
  for (int run = 0; run < 2; ++run) {
    CHECK(bits_of_all(plan.run({&given, 1})) == bits_of_all(body(given, wanted)));
    CHECK(bits_of(kept) == bits_of(wanted));
  }
}

TEST_CASE("A program for batches of other sizes takes in what the first one did", "[fusion][reduction]") {
  const auto body = [](const NDArray& x) {
    const NDArray made = relu(x * 0.5), centred = made - mean(made, {1}, true);
    return Arrays{sum(square(centred), {0}), made};
  };
  const Graph graph = traced({spec({40, 70})}, [&](const auto& in) { return body(in[0]); });
  const Graph taken = with_fused_reductions(with_fused_pointwise(graph), TakenReductions::all);
  CHECK(std::count_if(taken.nodes.begin(), taken.nodes.end(), [](const graph::Node& node) {
          return node.op == &fused::k_fused_reduction;
        }) == 2);
  for (const std::int64_t rows : {1, 7, 33}) {
    const NDArray given = random_array({rows, 70}, 3);
    const auto wanted = bits_of_all(body(given));
    const std::vector<ArraySpec> specs{spec(given.shape())};
    CHECK(bits_of_all(evaluate(with_inputs(taken, specs), {&given, 1})) == wanted);
    if (rows == 1)
      continue;  // an extent of 1 is another program
    const Shape shapes[] = {given.shape()};
    Plan plan(with_extents(graph, shapes), {.reductions = TakenReductions::all});
    CHECK(nodes_of(plan.graph()) == nodes_of(taken));
    CHECK(bits_of_all(plan.run({&given, 1})) == wanted);
  }
}

TEST_CASE("Without reductions taken in a plan has them as nodes", "[fusion][reduction]") {
  const Body body = [](const auto& in) { return Arrays{mean(square(in[0]))}; };
  CHECK(nodes_after({spec({40, 70})}, body, TakenReductions::none) == Names{"square", "mean"});
  const Graph graph = traced({spec({40, 70})}, body);
  CHECK(nodes_of(Plan(graph, {.reductions = TakenReductions::none}).graph()) == Names{"square", "mean"});
  CHECK(nodes_of(Plan(graph).graph()) == Names{"reduced(square, mean)"});
}

TEST_CASE(
    "Random programs with readers beside reductions give as plans what they give by hand", "[fusion][reduction]") {
  int kept = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    const RandomProgram program(47000 + seed, cpu());
    const auto rows = reduction_cases();
    const Body body = [&](const std::vector<NDArray>& in) {
      const Arrays made = program.run({in.begin(), in.end()});
      Arrays ends;
      for (std::size_t i = 0; i < made.size(); ++i) {
        const NDArray terms = tanh(made[i] * 0.5 + in[0]);
        for (const std::size_t way : {std::size_t{0}, i % 2}) {
          const ReductionCase& row = rows[(seed + 5 * i + way) % rows.size()];
          const Shape axes = sets_of_axes(2)[(seed + i + way) % 3];
          ends.push_back(terms.size() == 0 && !row.takes_nothing ? terms : row.run(terms, axes, seed % 2 == 0));
        }
        if (seed % 3 != 0)
          ends.push_back(terms);
      }
      return ends;
    };
    CAPTURE(seed);
    for (const graph::Node& node : graph_of_runs(program, body, TakenReductions::all).nodes)
      kept += node.op == &fused::k_fused_reduction && node.results.size() > 1 ? 1 : 0;
  }
  CHECK(kept > 100);
}
