#pragma once

// Steps of a network with batch norms, by hand and as plans.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

namespace sluice::test {

/// x, gamma, beta, running mean and variance, an array to add, the gradient of the result.
inline Arrays draw_inputs(const Shape& shape, DType dtype, DType parameters, Device device) {
  const Shape channels{shape[1]};
  return {
      random_array(shape, 1, -2, 2, dtype).to(device),
      random_array(channels, 2, -1, 2, parameters).to(device),
      random_array(channels, 3, -1, 1, parameters).to(device),
      random_array(channels, 4, -1, 1, parameters).to(device),
      random_array(channels, 5, 0.5, 2, parameters).to(device),
      random_array(shape, 6, -1, 1, dtype).to(device),
      random_array(shape, 7, -1, 1, dtype).to(device)};
}

using Network = std::function<NDArray(const Arrays& in)>;

inline NDArray norm_of(const Arrays& in, const BatchNormOptions& options = {}) {
  return batch_norm(in[0], in[1], in[2], in[3], in[4], options);
}

/// The result and the gradients of x, gamma, beta and what is added.
inline Arrays step(const Arrays& given, const Network& network) {
  Arrays in = given;
  std::vector<NDArray> variables;
  for (const std::size_t i : {0, 1, 2, 5}) {
    in[i] = given[i].detach();
    in[i].attach_grad();
    variables.push_back(in[i]);
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = network(in);
  }
  Arrays made{y};
  const std::vector<NDArray> heads{in[6]};
  for (NDArray& gradient : autograd::grad({&y, 1}, variables, heads))
    made.push_back(gradient);
  return made;
}

inline bool is_running(std::size_t i) {
  return i == 3 || i == 4;
}

// The running statistics are constants, as in networks: they are written where they lie.
inline graph::Graph traced(const Arrays& inputs, const Network& network) {
  graph::Tracer tracer;
  Arrays given = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_running(i))
      given[i] = tracer.input({inputs[i].shape(), inputs[i].dtype(), inputs[i].device()});
  }
  return without_dead_code(tracer.trace([&] { return step(given, network); }));
}

inline std::int64_t count(const graph::Graph& graph, const std::string& name) {
  return std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == name; });
}

inline Arrays copies(const Arrays& arrays) {
  Arrays made;
  for (const NDArray& array : arrays)
    made.push_back(array.copy());
  return made;
}

// The running statistics too.
inline void check_same_bits(const Arrays& inputs, const Network& network, const graph::PlanOptions& options = {}) {
  const Arrays by_hand = copies(inputs), planned = copies(inputs);
  graph::Plan plan(traced(planned, network), options);
  Arrays given;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (!is_running(i))
      given.push_back(planned[i]);
  }
  for (int run = 0; run < 3; ++run) {
    const auto want = all_bytes(step(by_hand, network));
    CHECK((all_bytes(plan.run(given)) == want));
    CHECK((all_bytes({planned[3], planned[4]}) == all_bytes({by_hand[3], by_hand[4]})));
  }
}

}  // namespace sluice::test
