// Plans that keep what comes of constants: what is made in each run all the same, and random programs.
#include <vector>

#include "tests/operator/derived_plans.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;

namespace {

/// Runs leave no trace in later ones, but for what they write into w.
void check_runs(const NDArray& x, const NDArray& w, std::int64_t nodes, const Body& body) {
  const Graph graph = traced({x}, body);
  CHECK(derived(graph) == nodes);
  for (const bool optimise : {false, true}) {
    Plan plan(graph, {.optimise = optimise}), apart(graph, {.keep_derived = false});
    CHECK(apart.memory().bytes_derived == 0);
    for (int run = 0; run < 3; ++run) {
      const NDArray before = w.copy();
      const auto wanted = all_bytes(body({x}));
      for (Plan* const one : {&plan, &apart}) {
        w.assign(before);
        const Arrays got = one->run({&x, 1});
        CHECK((all_bytes(got) == wanted));
        got.back().assign(7.0);  // is nothing to the next run
      }
    }
  }
}

// Programs that take some of their inputs as constants.
void check_random_programs(Device device, unsigned seeds) {
  std::int64_t nodes = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const RandomProgram program(seed, device);
    Arrays all;
    for (const NDArray& input : program.inputs())
      all.push_back(input.copy());
    const Body body = [&](const Arrays& in) { return program.run({in[0], all[1], all[2]}); };
    Plan plan(traced({all[0]}, body));
    nodes += derived(plan.graph());
    for (int run = 0; run < 3; ++run) {
      CHECK((all_bytes(plan.run({all.data(), 1})) == all_bytes(body({all[0]}))));
      if (run == 1)
        all[1 + seed % 2] += 0.25;
    }
  }
  CHECK(nodes > seeds / 4);
}

}  // namespace

TEST_CASE("What a caller gets, what is written and what is drawn is made in each run", "[graph][derived]") {
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 5}, 2, cpu());
  const NDArray flat = w.reshape({20});  // the same memory by another name
  const auto check = [&](std::int64_t nodes, const Body& body) { check_runs(x, w, nodes, body); };
  check(1, [&](const Arrays& in) { return Arrays{matmul(in[0], exp(w))}; });
  check(3, [&](const Arrays& in) { return Arrays{matmul(in[0], tanh(exp(w)).reshape({5, 4}).T().copy())}; });
  check(0, [&](const Arrays& in) { return Arrays{matmul(in[0], w), exp(w)}; });
  check(0, [&](const Arrays& in) {
    const NDArray made = exp(w);
    return Arrays{matmul(in[0], made), made.T()};
  });
  check(0, [&](const Arrays& in) {
    NDArray there = flat;
    const NDArray y = matmul(in[0], exp(w));
    there += 0.125;
    return Arrays{y};
  });
  check(0, [&](const Arrays& in) {
    NDArray there = w;
    there += 0.125;
    return Arrays{matmul(in[0], exp(flat).reshape({4, 5}))};
  });
  check(0, [&](const Arrays& in) {
    NDArray made = exp(w);
    made += 1.0;
    return Arrays{matmul(in[0], made)};
  });
  // Nothing but its shape is needed of what the run makes.
  check(1, [&](const Arrays& in) {
    const NDArray made = matmul(in[0], w);
    return Arrays{
        made *
        invoke_one(*find_operator("broadcast_like"), {exp(w.slice(0, 0, 1)), made}, {}, SourceLocation::current())};
  });
}

TEST_CASE("Memory that is written and never read is written in each run", "[graph][derived]") {
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 5}, 2, cpu());
  const NDArray whole = draw({3, 5}, 5, cpu()), parts = draw({6, 5}, 6, cpu());
  check_runs(x, w, 1, [&](const Arrays& in) {
    const NDArray y = matmul(in[0], exp(w));
    whole.assign(y);
    parts.slice(0, 1, 4).assign(y);
    return Arrays{y * 2.0};
  });
  CHECK((all_bytes({whole}) == all_bytes({matmul(x, exp(w))})));
  CHECK((all_bytes({parts.slice(0, 1, 4)}) == all_bytes({whole})));
}

TEST_CASE("What is drawn is drawn in each run", "[graph][derived]") {
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 5}, 2, cpu());
  const Graph graph = traced({x}, [&](const Arrays& in) {
    return Arrays{matmul(in[0], exp(w) * sluice::random::uniform(0, 1, {4, 5}))};
  });
  Plan plan(graph);
  CHECK(all_bytes(plan.run({&x, 1})) != all_bytes(plan.run({&x, 1})));
}

TEST_CASE("Random programs give what they give by hand where inputs are constants", "[graph][derived]") {
  check_random_programs(cpu(), 300);
}
TEST_CASE("Random programs on a GPU give what they give by hand where inputs are constants", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_random_programs(gpu(), 60);
}
