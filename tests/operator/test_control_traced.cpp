// foreach, while_loop and cond in traced programs: the same values and gradients, whatever a graph makes of them.
#include "tests/engine/expect.h"
#include "tests/operator/control_cases.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Of a recurrent cell: inputs are the sequence, the first state, weights of both and a bias.
Program recurrent(bool as_loop) {
  return [=](const Arrays& in) {
    const auto cell = [&](const NDArray& x, const NDArray& h) {
      return tanh(matmul(x, in[2]) + matmul(h, in[3]) + in[4]);
    };
    if (as_loop) {
      const LoopResult r = foreach(
          [&](const Arrays& data, const Arrays& states) -> LoopResult {
            const NDArray h = cell(data[0], states[0]);
            return {{h}, {h}};
          },
          {in[0]},
          {in[1]});
      return Arrays{r.outputs[0], r.states[0]};
    }
    NDArray h = in[1];
    std::vector<NDArray> rows;
    for (std::int64_t i = 0; i < in[0].shape()[0]; ++i)
      rows.push_back(h = cell(in[0][i], h));
    return Arrays{stack(rows), h};
  };
}

Arrays recurrent_inputs(std::int64_t turns, DType dtype = float32, Device device = cpu()) {
  return {
      numbers_of(1, {turns, 2, 3}, dtype, device),
      numbers_of(2, {2, 4}, dtype, device),
      numbers_of(3, {3, 4}, dtype, device),
      numbers_of(4, {4, 4}, dtype, device) * 0.5,
      numbers_of(5, {4}, dtype, device)};
}

// Multiplies until it is large; what it adds is captured.
Program growing(double limit, std::int64_t most) {
  return [=](const Arrays& in) {
    const LoopResult r = while_loop(
        [=](const Arrays& v) { return sum(v[0]) < limit; },
        [&](const Arrays& v) -> LoopResult {
          const NDArray next = v[0] * 1.5 + in[1];
          return {{next * v[1], v[1]}, {next, v[1] + 1}};
        },
        {in[0], zeros({}, {.device = in[0].device()})},
        most);
    return Arrays{r.outputs[0], r.outputs[1], r.states[0], r.states[1]};
  };
}

Program branching(double limit) {
  return [=](const Arrays& in) {
    return cond(
        sum(in[0]) > limit,
        [&](const Arrays& a) {
          return Arrays{a[0] * in[1], exp(a[0])};
        },
        [&](const Arrays& a) {
          return Arrays{a[0] + in[2], a[0].slice(0, 0, 1).broadcast_to(a[0].shape())};
        },
        {in[0]});
  };
}

}  // namespace

TEST_CASE("A recurrent cell in foreach is the cell written again and again, by hand and traced", "[control][graph]") {
  for (const std::int64_t turns : {1, 5, 32, 33, 50}) {
    CAPTURE(turns);
    const Arrays inputs = recurrent_inputs(turns);
    const Program loop = recurrent(true), by_hand = recurrent(false);
    CHECK(all_bytes(with_gradients(loop, inputs)) == all_bytes(with_gradients(by_hand, inputs)));
    check_everywhere(loop, inputs);
    CHECK(count_nodes(traced(loop, inputs), "foreach") == (turns > 32));
  }
}

TEST_CASE("while_loop in a graph counts its turns when it runs", "[control][graph]") {
  const NDArray x = full({3}, 0.25f), added = numbers_of(6, {3}) * 0.1 + 0.2;
  for (const double limit : {-1.0, 0.8, 5.0, 1e9}) {
    CAPTURE(limit);
    for (const std::int64_t most : {0, 1, 6, 40}) {
      CAPTURE(most);
      check_everywhere(growing(limit, most), {x, added}, {}, 1e-5);
    }
  }
  const graph::Graph graph = traced(growing(5, 6), {x, added});
  CHECK(count_nodes(graph, "while_loop") == 1);
  graph::Plan plan(graph);
  for (const float start : {0.25f, 1.f, 7.f, 0.01f}) {  // other turns with the same plan
    const Arrays inputs{full({3}, start), added};
    CHECK(all_bytes(plan.run(inputs)) == all_bytes(growing(5, 6)(inputs)));
  }
}

TEST_CASE("cond in a graph takes the side that the predicate says when it runs", "[control][graph]") {
  const Arrays inputs{numbers_of(7, {4}), numbers_of(8, {4}), numbers_of(9, {4})};
  for (const double limit : {-100.0, 100.0})
    check_everywhere(branching(limit), inputs);
  graph::Plan plan(traced(branching(0), inputs));
  CHECK(count_nodes(plan.graph(), "cond") == 1);
  for (unsigned seed = 0; seed < 10; ++seed) {
    const Arrays other{numbers_of(seed, {4}), inputs[1], inputs[2]};
    CHECK(all_bytes(plan.run(other)) == all_bytes(branching(0)(other)));
  }
}

TEST_CASE("Loops and branches on a GPU, by hand and traced", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const std::int64_t turns : {4, 40})
    check_everywhere(recurrent(true), recurrent_inputs(turns, float32, gpu(0)), {}, 1e-4);
  const auto on_gpu = [](unsigned seed) { return numbers_of(seed, {4}, float32, gpu(0)); };
  for (const double limit : {-1.0, 5.0, 1e9})
    check_everywhere(growing(limit, 6), {full({4}, 0.25f, {.device = gpu(0)}), abs(on_gpu(6))}, {}, 1e-5);
  const Arrays inputs{on_gpu(7), on_gpu(8), on_gpu(9)};
  for (const double limit : {-100.0, 100.0})
    check_everywhere(branching(limit), inputs);
  // A predicate that lies elsewhere, and a plan's other segments around the branch.
  const Program program = [](const Arrays& in) {
    const NDArray x = exp(in[0]) + in[1];
    const NDArray y = cond(
        full({}, 1, {.dtype = int32}),
        [](const Arrays& a) { return Arrays{a[0] * 2}; },
        [](const Arrays& a) { return Arrays{a[0] * 3}; },
        {x})[0];
    return Arrays{tanh(y) * in[1]};
  };
  check_everywhere(program, {inputs[0], inputs[1]});
  const Arrays here = recurrent_inputs(40);
  const Arrays there = recurrent_inputs(40, float32, gpu(0));
  CHECK(are_near(graph::Plan(traced(recurrent(true), there)).run(there), recurrent(true)(here), 1e-4));
}
