#pragma once

// The gradient of batch norm, a sum and a relu: what its tests share.
#include <algorithm>
#include <cmath>
#include <string>

#include <sluice/operator/api.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/norm/kernels.h>

#include "tests/operator/norm_steps.h"

namespace sluice::test {

inline const char* const k_name = "batch_norm_add_relu_backward";

inline NDArray channels_as_neighbours(const NDArray& array) {
  return array.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
}

/// The same numbers where no vector begins.
inline NDArray beside_vectors(const NDArray& array) {
  NDArray longer = zeros({array.size() + 1}, {.dtype = array.dtype(), .device = array.device()});
  longer.slice(0, 1, array.size() + 1).assign(array.reshape({array.size()}));
  return longer.slice(0, 1, array.size() + 1).reshape(array.shape());
}

/// Two heads, the result, x, gamma, mean, 1 / std; not numbers and infinities among them.
struct Operands {
  NDArray a, b, y, x, gamma, mean, inv_std;

  Operands(const Shape& shape, DType dtype, Device device) {
    const DType wide = dtype == float64 ? float64 : float32;
    const Shape channels{shape[1]};
    x = random_array(shape, 1, -2, 2, dtype).to(device);
    a = random_array(shape, 2, -1, 1, dtype).to(device);
    b = random_array(shape, 3, -1, 1, dtype).to(device);
    y = relu(random_array(shape, 4, -1, 1, dtype).to(device));
    gamma = random_array(channels, 5, -1, 2, wide).to(device);
    mean = random_array(channels, 6, -1, 1, wide).to(device);
    inv_std = random_array(channels, 7, 0.5, 2, wide).to(device);
    if (shape.size() == 0)
      return;
    y.slice(0, 0, 1).slice(1, 0, 1).assign(NAN);
    y.slice(0, 0, 1).slice(1, 2, 3).assign(0);
    a.slice(0, 1, 2).slice(1, 1, 2).assign(INFINITY);
    b.slice(0, 0, 1).slice(1, 2, 3).assign(NAN);
  }
};

inline Arrays at_once(const Operands& of, const Attributes& how, bool two) {
  Arrays inputs{of.a, of.x, of.gamma, of.mean, of.inv_std, of.y};
  if (two)
    inputs.push_back(of.b);
  return invoke(detail::batch_norm_add_relu_backward_op, inputs, how, {});
}

inline Arrays one_by_one(const Operands& of, const Attributes& how, bool two) {
  const NDArray passed = detail::relu_gradient(two ? of.a + of.b : of.a, of.y, {});
  const Arrays inputs{passed, of.x, of.gamma, of.mean, of.inv_std};
  Arrays made = invoke(detail::batch_norm_backward_op, inputs, how, {});
  made.push_back(passed);
  return made;
}

inline const graph::Node& only(const graph::Graph& graph) {
  REQUIRE(count(graph, k_name) == 1);
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return node.op->name == std::string(k_name);
  });
}

inline Arrays abstract_inputs(graph::Tracer& tracer, const Arrays& like, Device device) {
  Arrays given;
  for (const NDArray& input : like)
    given.push_back(tracer.input({input.shape(), input.dtype(), device}));
  return given;
}

}  // namespace sluice::test
