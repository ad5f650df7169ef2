#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

namespace sluice::test {

using Program = std::function<Arrays(const Arrays&)>;

/// Numbers between -1 and 1, the same for a seed.
inline NDArray numbers_of(unsigned seed, const Shape& shape, DType dtype = float32, Device device = cpu()) {
  std::mt19937 draw(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.size()));
  for (float& value : values)
    value = static_cast<float>(draw() % 2001) / 1000.0f - 1.0f;
  return array(values, shape).astype(dtype).to(device);
}

/// What the program gives, and behind that the gradients of its inputs, and of `others` that it uses beside, weighted
/// by numbers that the outputs' shapes say.
inline Arrays with_gradients(const Program& program, const Arrays& given, const std::vector<NDArray>& others = {}) {
  Arrays inputs;
  std::vector<NDArray> variables = others, heads, weights;
  for (const NDArray& input : given) {
    inputs.push_back(input.detach());
    if (is_floating(input.dtype())) {
      inputs.back().attach_grad();
      variables.push_back(inputs.back());
    }
  }
  Arrays results;
  {
    const autograd::RecordScope record;
    results = program(inputs);
  }
  for (const NDArray& result : results) {
    if (!autograd::on_tape(result))
      continue;
    const auto size = static_cast<double>(result.size());
    heads.push_back(result);
    weights.push_back(cos(arange(0, size, 1, {.dtype = float32, .device = result.device()}).reshape(result.shape()))
                          .astype(result.dtype()));
  }
  for (const NDArray& gradient : autograd::grad(heads, variables, weights))
    results.push_back(gradient);
  for (NDArray& result : results)
    result = result.detach();
  return results;
}

inline graph::Graph traced(const Program& program, const Arrays& inputs) {
  graph::Tracer tracer;
  Arrays taken;
  for (const NDArray& input : inputs)
    taken.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  return tracer.trace([&] { return program(taken); });
}

inline std::size_t count_nodes(const graph::Graph& graph, const std::string& name) {
  std::size_t count = 0;
  for (const graph::Node& node : graph.nodes)
    count += node.op->name == name;
  return count;
}

inline bool are_near(const Arrays& found, const Arrays& expected, double tolerance) {
  bool near = found.size() == expected.size();
  for (std::size_t i = 0; near && i < found.size(); ++i) {
    const auto a = found[i].astype(float64).to_vector<double>(), b = expected[i].astype(float64).to_vector<double>();
    near = found[i].shape() == expected[i].shape() && found[i].dtype() == expected[i].dtype();
    for (std::size_t j = 0; near && j < a.size(); ++j)
      near = std::abs(a[j] - b[j]) <= tolerance * (1 + std::abs(b[j])) || (std::isnan(a[j]) && std::isnan(b[j]));
  }
  return near;
}

/// By hand, as a plan with and without the passes, and as the graph's calls one by one: the same values and gradients,
/// to the last bit, or within a tolerance that is not 0.
inline void check_everywhere(
    const Program& program, const Arrays& inputs, const std::vector<NDArray>& others = {}, double tolerance = 0) {
  const Program both = [&](const Arrays& in) { return with_gradients(program, in, others); };
  const Arrays expected = both(inputs);
  const graph::Graph graph = traced(both, inputs);
  const auto check = [&](const Arrays& found) {
    if (tolerance == 0)
      CHECK(all_bytes(found) == all_bytes(expected));
    else
      CHECK(are_near(found, expected, tolerance));
  };
  check(graph::evaluate(graph, inputs));
  graph::Plan plain(graph, {.optimise = false}), plan(graph);
  check(plain.run(inputs));
  for (int run = 0; run < 3; ++run)
    check(plan.run(inputs));
}

inline Arrays chosen(const NDArray& predicate, const NDArray& x, double factor) {
  return cond(
      predicate,
      [=](const Arrays& a) { return Arrays{a[0] * factor}; },
      [](const Arrays& a) { return Arrays{a[0] - 1}; },
      {x});
}

// A loop of so many turns, a counted one and a branch in it.
inline Program all_kinds(std::int64_t turns) {
  return [=](const Arrays& in) {
    const LoopResult r = foreach(
        [&](const Arrays& d, const Arrays& s) -> LoopResult {
          return {{chosen(sum(d[0]) > 0, s[0], 0.5)[0]}, {s[0] + d[0] * in[1]}};
        },
        {in[0].broadcast_to({turns, in[0].shape()[0]})},
        {in[1]});
    const LoopResult w = while_loop(
        [](const Arrays& v) { return v[1] < 3; },
        [](const Arrays& v) -> LoopResult {
          return {{v[0]}, {v[0] * 2, v[1] + 1}};
        },
        {r.states[0], zeros({}, {.dtype = int32, .device = in[0].device()})},
        4);
    return Arrays{r.outputs[0], w.outputs[0], w.states[0], w.states[1]};
  };
}

inline Arrays pair(std::int64_t n, Device device = cpu()) {
  return {numbers_of(1, {n}, float32, device), numbers_of(2, {n}, float32, device)};
}

inline graph::GraphFile file_of(const graph::Graph& graph) {
  graph::GraphFile file{.graph = graph};
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    file.inputs.push_back({message("x", i), false});
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    file.outputs.push_back(message("y", i));
  return file;
}

}  // namespace sluice::test
