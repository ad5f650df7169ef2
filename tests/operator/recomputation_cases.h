#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/memory_plan.h>
#include <sluice/operator/graph/passes.h>

#include "tests/operator/derived_plans.h"
#include "tests/support/catch.h"

namespace sluice::test {

inline std::int64_t count(const graph::Graph& graph, const std::string& op) {
  return std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == op; });
}

/// A step of training a chain of dense layers: forward, backward, update.
struct Chain {
  std::vector<NDArray> weights = {}, gradients = {};
  graph::Graph step = {};

  static constexpr std::int64_t k_width = 24, k_batch = 40;
  static constexpr std::size_t k_bytes = k_width * k_batch * sizeof(float);  // of one layer's result

  explicit Chain(int layers, Device device = cpu()) {
    for (int i = 0; i < layers; ++i) {
      weights.push_back(draw({k_width, k_width}, static_cast<std::uint64_t>(i + 1), device));
      weights.back().attach_grad();
    }
    step = traced({samples(device)}, [&](const Arrays& x) {
      NDArray loss;
      {
        const autograd::RecordScope record;
        NDArray y = x[0];
        for (const NDArray& weight : weights)
          y = relu(matmul(y, weight));
        loss = mean(square(y));
      }
      loss.backward();
      std::vector<NDArray> plain;
      for (const NDArray& weight : weights) {
        gradients.push_back(weight.grad());
        plain.push_back(weight.detach());
      }
      sgd_update(plain, gradients, {}, {.learning_rate = 0.5});
      return Arrays{loss.detach()};
    });
  }
  static NDArray samples(Device device) { return draw({k_batch, k_width}, 99, device); }

  /// Losses of some steps and the weights behind them, from weights that are the same each time.
  std::vector<std::string> run(const graph::PlanOptions& options, int steps = 5) {
    const Device device = weights[0].device();
    for (std::size_t i = 0; i < weights.size(); ++i)
      copy_into(draw({k_width, k_width}, i + 1, device), weights[i].detach());
    graph::Plan plan(step, options);
    const NDArray x = samples(device);
    Arrays all;
    for (int i = 0; i < steps; ++i)
      all.push_back(plan.run({&x, 1})[0]);
    for (const NDArray& weight : weights)
      all.push_back(weight.detach());
    return all_bytes(all);
  }
};

/// In the order of the nodes: whatever one reads is what was left last where it lies.
inline void check_no_overlap(const graph::Plan& plan) {
  const graph::Graph& graph = plan.graph();
  const auto& slot_of = plan.memory_plan().slot_of;
  std::vector<graph::ValueId> held(plan.memory_plan().slots.size(), ~graph::ValueId{0});
  std::size_t overwritten = 0;
  const auto look = [&](graph::ValueId id) {
    const graph::ValueId root = graph.root(id);
    overwritten += root < slot_of.size() && slot_of[root] && held[*slot_of[root]] != root;
  };
  for (const graph::Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size() && !node.is_view(); ++i) {
      if (!node.sees_shape_only(i))
        look(node.inputs[i]);
    }
    for (const auto [id, made] : node.results) {
      if (made && !node.is_view() && slot_of[id])
        held[*slot_of[id]] = id;
    }
  }
  for (const graph::ValueId output : graph.outputs)
    look(output);
  CHECK(overwritten == 0);
}

}  // namespace sluice::test
