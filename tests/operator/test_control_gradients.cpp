// Gradients of traced loops and branches: of what bodies use beside, of bodies in bodies, of gradients.
#include "tests/engine/expect.h"
#include "tests/operator/control_cases.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// A gradient's gradient: of the sum of squares of the first one.
Program second_order(const Program& program) {
  return [=](const Arrays& given) {
    Arrays inputs;
    std::vector<NDArray> variables;
    for (const NDArray& input : given) {
      inputs.push_back(input.detach());
      inputs.back().attach_grad();
      variables.push_back(inputs.back());
    }
    const autograd::RecordScope record;
    const Arrays results = program(inputs);
    std::vector<NDArray> heads(results.begin(), results.end());
    const std::vector<NDArray> first = autograd::grad(heads, variables, {}, {.create_graph = true});
    NDArray total = sum(first[0] * first[0]);
    for (std::size_t i = 1; i < first.size(); ++i)
      total = total + sum(first[i] * first[i]);
    Arrays all(first.begin(), first.end());
    for (const NDArray& gradient : autograd::grad({&total, 1}, variables))
      all.push_back(gradient);
    for (NDArray& one : all)
      one = one.detach();
    return all;
  };
}

void check_second_order(const Program& program, const Arrays& inputs, double tolerance = 1e-9) {
  const Program both = second_order(program);
  const Arrays expected = both(inputs);
  const graph::Graph graph = traced(both, inputs);
  CHECK(are_near(graph::evaluate(graph, inputs), expected, tolerance));
  graph::Plan plan(graph);
  CHECK(are_near(plan.run(inputs), expected, tolerance));
}

Program loop_of(std::int64_t turns, bool detached) {
  return [=](const Arrays& in) {
    const NDArray data = in[0].broadcast_to({turns, 3});
    const LoopResult r = foreach(
        [&](const Arrays& d, const Arrays& s) -> LoopResult {
          const NDArray h = tanh(d[0] * s[0] * in[1]);
          return {{(detached ? h.detach() : h) * s[0]}, {h}};
        },
        {data},
        {in[2]});
    return Arrays{r.outputs[0], r.states[0]};
  };
}

Arrays three(DType dtype) {
  return {numbers_of(1, {3}, dtype), numbers_of(2, {3}, dtype), numbers_of(3, {3}, dtype)};
}

}  // namespace

TEST_CASE("Gradients of gradients go through loops and branches", "[control][graph]") {
  const Arrays inputs = three(float64);
  for (const std::int64_t turns : {3, 40}) {
    for (const bool detached : {false, true}) {
      CAPTURE(turns, detached);
      check_second_order(loop_of(turns, detached), inputs);
    }
  }
  const Program counted = [](const Arrays& in) {
    const LoopResult r = while_loop(
        [](const Arrays& v) { return sum(v[0] * v[0]) > 0.05; },
        [&](const Arrays& v) -> LoopResult {
          return {{v[0] * in[1]}, {v[0] * sin(v[0] + in[2]) * 0.9}};
        },
        {in[0]},
        20);
    return Arrays{r.outputs[0], r.states[0]};
  };
  check_second_order(counted, inputs);
  for (const double limit : {-100.0, 100.0}) {
    const Program chosen = [=](const Arrays& in) {
      return cond(
          sum(in[0]) > limit,
          [&](const Arrays& a) { return Arrays{exp(a[0]) * in[1] * in[1]}; },
          [&](const Arrays& a) { return Arrays{sin(a[0].detach()) * a[0] * in[2]}; },
          {in[0]});
    };
    check_second_order(chosen, inputs);
  }
}

TEST_CASE("What a body takes off the tape has no gradient, however often it is differentiated", "[control][graph]") {
  const Arrays inputs = three(float64);
  for (const std::int64_t turns : {4, 40}) {
    CAPTURE(turns);
    const Program program = [=](const Arrays& in) {
      const LoopResult r = foreach(
          [&](const Arrays& d, const Arrays& s) -> LoopResult {
            NDArray kept;
            {
              const autograd::PauseScope pause;
              kept = s[0] * in[2];
            }
            return {{d[0] * kept}, {(s[0].detach() + 1) * d[0] + sin(s[0] * s[0]) * in[1].detach()}};
          },
          {in[0].broadcast_to({turns, 3}) * 0.3},
          {in[1]});
      return Arrays{r.outputs[0], r.states[0]};
    };
    check_everywhere(program, inputs, {}, 1e-12);
    check_second_order(program, inputs);
    for (const double value : with_gradients(program, inputs).back().to_vector<double>())
      CHECK(value == 0);  // of in[2]
  }
}

TEST_CASE("Arrays that bodies use beside, with memory or traced, get their gradients", "[control][graph]") {
  NDArray weight = numbers_of(11, {3}), scale = numbers_of(12, {3});
  weight.attach_grad();
  scale.attach_grad();
  for (const std::int64_t turns : {7, 35}) {
    CAPTURE(turns);
    const Program both_ways = [&](const Arrays& in) {  // one array off the tape and on it
      const LoopResult r = foreach(
          [&](const Arrays& d, const Arrays& s) -> LoopResult {
            return {{d[0] * weight.detach() * in[1].detach()}, {s[0] + d[0] * weight * in[1]}};
          },
          {in[0].reshape({-1, 3})},
          {zeros({3})});
      return Arrays{r.outputs[0], r.states[0]};
    };
    check_everywhere(both_ways, {numbers_of(13, {turns * 3}), numbers_of(14, {3})}, {weight}, 1e-5);
    const Program program = [&](const Arrays& in) {
      const NDArray shared = in[1] * scale;  // on the tape, of an input and of a parameter
      const LoopResult r = foreach(
          [&](const Arrays& d, const Arrays& s) -> LoopResult {
            return {
                {},
                {s[0] * 0.9 + cond(
                                  sum(d[0]) > 0,
                                  [&](const Arrays& a) { return Arrays{a[0] * weight}; },
                                  [&](const Arrays& a) { return Arrays{a[0] * shared}; },
                                  {d[0]})[0]}};
          },
          {in[0].reshape({-1, 3})},
          {zeros({3})});
      return Arrays{r.states[0]};
    };
    check_everywhere(program, {numbers_of(13, {turns * 3}), numbers_of(14, {3})}, {weight, scale}, 1e-5);
  }
}

TEST_CASE("Loops in branches in loops", "[control][graph]") {
  const Program program = [](const Arrays& in) {
    const LoopResult r = foreach(
        [&](const Arrays& d, const Arrays& s) -> LoopResult {
          const Arrays chosen = cond(
              sum(s[0]) < 1,
              [&](const Arrays& a) {
                return while_loop(
                           [](const Arrays& v) { return max(v[0]) < 2; },
                           [&](const Arrays& v) -> LoopResult {
                             return {{}, {v[0] + abs(in[1]) + 0.1}};
                           },
                           {a[0]},
                           5)
                    .states;
              },
              [&](const Arrays& a) { return Arrays{a[0] * 0.25 * d[0]}; },
              {s[0]});
          return {{chosen[0] + d[0]}, {chosen[0]}};
        },
        {in[0]},
        {in[1]});
    return Arrays{r.outputs[0], r.states[0]};
  };
  for (const std::int64_t turns : {6, 40})
    check_everywhere(program, {numbers_of(21, {turns, 3}), numbers_of(22, {3})}, {}, 1e-5);
}
