// Loops that a GPU turns itself: while_loop as part of a plan's CUDA graph.
#include <string>

#include "tests/engine/expect.h"
#include "tests/operator/control_cases.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;

namespace {

constexpr std::int64_t k_size = 5;

Arrays inputs_of(unsigned seed, double limit) {
  return {
      numbers_of(seed, {k_size}, float32, gpu(0)),
      numbers_of(seed + 100, {k_size}, float32, gpu(0)),
      full({}, limit, {.device = gpu(0)})};
}

bool is_one_graph(const Plan& plan) {
  const std::vector<graph::PlanSegment> segments = plan.segments();
  INFO(graph::to_string(segments));
  CHECK(segments.size() == 1);
  return segments.size() == 1 && segments[0].captured;
}

/// A plan of the program, one CUDA graph, gives what the program gives by hand, for limits of none to all turns.
void check_loops(const Program& program) {
  const Arrays inputs = inputs_of(1, 0);
  const Graph graph = traced(program, inputs);
  Plan plan(graph), poisoned(graph, {.optimise = false, .poison = true});
  for (const double limit : {3.0, 0.0, 1.0, 100.0, 2.0}) {
    CAPTURE(limit);
    const Arrays next = inputs_of(static_cast<unsigned>(limit), limit);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      copy_into(next[i], inputs[i]);
    CHECK(all_bytes(plan.run(inputs)) == all_bytes(program(inputs)));
    CHECK(all_bytes(poisoned.run(inputs)) == all_bytes(program(inputs)));
  }
  CHECK(is_one_graph(plan));
  CHECK(is_one_graph(poisoned));
  CHECK(plan.counts().in_order == 0);
}

NDArray zero(Device device) {
  return zeros({}, {.dtype = int32, .device = device});
}

Arrays all_of(const LoopResult& result) {
  Arrays all = result.outputs;
  all.insert(all.end(), result.states.begin(), result.states.end());
  return all;
}

}  // namespace

TEST_CASE(
    "A while_loop on a GPU is part of the plan's CUDA graph, however many turns it takes", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_loops([](const Arrays& in) {
    return all_of(while_loop(
        [&](const Arrays& v) { return v[1] < in[2]; },
        [&](const Arrays& v) -> LoopResult {
          const NDArray next = softmax(v[0]) * in[1] + v[0];
          return {{next.reshape({1, k_size}), v[1] * 2}, {next, v[1] + 1}};
        },
        {exp(in[0]), zero(in[0].device())},
        4));
  });
}

TEST_CASE("States of a loop on a GPU may change places, stay, and be passed on", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_loops([](const Arrays& in) {
    return all_of(while_loop(
        [&](const Arrays& v) {
          return (v[3] < in[2]).reshape({1, 1});
        },
        [](const Arrays& v) -> LoopResult {
          return {{v[0], v[0], v[1]}, {v[1], v[0], v[2], v[3] + 1}};
        },
        {in[0], in[1], in[0].slice(0, -1, INT64_MIN, -1), zero(in[0].device())},
        6));
  });
}

TEST_CASE("Branches and loops of a GPU's graph stand in each other", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_loops([](const Arrays& in) {
    const auto inner = [&](const NDArray& x) {
      return while_loop(
                 [](const Arrays& v) { return v[1] < 3; },
                 [](const Arrays& v) -> LoopResult {
                   return {{}, {chosen(sum(v[0]) > 0, v[0], 0.5)[0] + 0.25, v[1] + 1}};
                 },
                 {x, zero(x.device())},
                 5)
          .states[0];
    };
    const LoopResult outer = while_loop(
        [&](const Arrays& v) { return v[1] < in[2]; },
        [&](const Arrays& v) -> LoopResult {
          const NDArray next = cond(
              sum(v[0]) > 0.5,
              [&](const Arrays& a) { return Arrays{inner(a[0]) * in[1]}; },
              [](const Arrays& a) { return Arrays{a[0] + 1}; },
              {v[0]})[0];
          return {{next}, {next, v[1] + 1}};
        },
        {in[0], zero(in[0].device())},
        4);
    return Arrays{outer.outputs[0], outer.states[0] * in[1]};
  });
}

TEST_CASE("What has failed in a loop does not fail the runs that follow", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Program program = [](const Arrays& in) {
    return all_of(while_loop(
        [&](const Arrays& v) { return v[1] < in[2]; },
        [&](const Arrays& v) -> LoopResult {
          return {{softmax(softmax(v[0]))}, {softmax(v[0]) + in[1], v[1] + 1}};
        },
        {in[0], zero(in[0].device())},
        4));
  };
  for (const bool keeps : {false, true}) {
    Plan plan(traced(program, inputs_of(1, 1)), {.keep_results = keeps});
    for (int run = 0; run < 4; ++run) {
      CAPTURE(keeps, run);
      Arrays inputs = inputs_of(1, run);
      CHECK(all_bytes(plan.run(inputs)) == all_bytes(program(inputs)));
      inputs[1] = take(ones({2, k_size}), array<int>({2}))[0].to(gpu(0));
      CHECK_THROWS_AS(plan.run(inputs)[0].wait_to_read(), IndexError);
    }
    CHECK(is_one_graph(plan));
  }
}

TEST_CASE("What the body of a loop makes is part of the plan's memory", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Shape shape{64, 1024};
  const std::size_t one = 64 * 1024 * sizeof(float);
  const auto memory_of = [&](int softmaxes) {
    const Program program = [&](const Arrays& in) {
      return while_loop(
                 [](const Arrays& v) { return v[1] < 3; },
                 [&](const Arrays& v) -> LoopResult {
                   NDArray x = v[0];
                   for (int i = 0; i < softmaxes; ++i)
                     x = softmax(x);
                   return {{}, {x, v[1] + 1}};
                 },
                 {in[0], zero(in[0].device())},
                 4)
          .states;
    };
    return Plan(traced(program, {zeros(shape, {.device = gpu(0)})})).memory().bytes;
  };
  const std::size_t least = memory_of(1);
  CHECK(least > one);  // the state of the next turn
  CHECK(memory_of(2) == least + one);
  CHECK(memory_of(6) == least + 2 * one);
}
