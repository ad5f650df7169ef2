#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/trace.h>

#include "tests/support/compare.h"

// Convolutions with relu whose results are pooled, as programs that graphs are traced of.
namespace sluice::test {

inline std::int64_t nodes_named(const graph::Graph& graph, const std::string& name) {
  return std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == name; });
}

template <class Body>
graph::Graph alive_trace(const Arrays& inputs, const Body& body) {
  graph::Tracer tracer;
  Arrays given;
  for (const NDArray& input : inputs)
    given.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  return without_dead_code(tracer.trace([&] { return body(given); }));
}

/// A convolution with relu, and pooling.
struct PooledNetwork {
  Shape x, weight;
  ConvolutionOptions convolution = {};
  PoolOptions pool = {};
  bool bias = true, of_x = true;

  PooledNetwork with(bool a_bias, bool gradient_of_x) const {
    PooledNetwork other = *this;
    other.bias = a_bias;
    other.of_x = gradient_of_x;
    other.convolution.activation = "relu";
    return other;
  }
  NDArray operator()(const NDArray& in, const NDArray& w, const NDArray& b) const {
    return max_pool2d(sluice::convolution(in, w, b, convolution), pool);
  }
  Arrays inputs(DType dtype = float32) const {
    const NDArray image = random_array(x, 1, -1, 1, dtype), filter = random_array(weight, 2, -1, 1, dtype);
    const NDArray added = random_array({weight[0]}, 3, -0.5, 0.5, dtype);
    const NDArray y = (*this)(image, filter, added);
    return {image, filter, added, random_array(y.shape(), 4, -1, 1, dtype)};
  }
  /// The result and all gradients, of a head that is the last input.
  Arrays trained(const Arrays& in) const {
    NDArray image = in[0].copy(), w = in[1].copy(), b = bias ? in[2].copy() : NDArray();
    std::vector<NDArray*> variables{&w};
    if (bias)
      variables.push_back(&b);
    if (of_x)
      variables.push_back(&image);
    for (NDArray* each : variables)
      each->attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = (*this)(image, w, b);
    }
    y.backward(in[3]);
    Arrays made{y};
    for (const NDArray* each : variables)
      made.push_back(each->grad());
    return made;
  }
};

}  // namespace sluice::test
