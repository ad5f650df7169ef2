#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/matmul/product.h>

namespace sluice::detail {

void product_cpu(const Queue& queue, const GemmProblem& problem, void* row_sums) {
  if (!product_onednn(queue, problem)) {
    gemm(problem);
  } else if (problem.relu) {
    // Not oneDNN's relu, fused: that one turns NaN into 0, and with it hides divergence.
    channel_add_cpu({problem.m, 1, problem.n, problem.dtype}, problem.c.data, nullptr, true);
  }
  // The gradient of a bias: a is the transpose of a contiguous (k, m).
  if (row_sums != nullptr)
    channel_sum_cpu({problem.k, problem.m, 1, problem.dtype}, problem.a.data, row_sums);
}

void matmul_cpu(const KernelCall& call) {
  if (call.outputs[0].size == 0)
    return;
  const auto product =
      batched_product(call.inputs[0], call.inputs[1], call.outputs[0], call.attributes.as<MatmulAttributes>());
  for_each_product(product, [&](const GemmProblem& problem) { product_cpu(call.queue, problem); });
}

void dense_cpu(const KernelCall& call) {
  product_cpu(call.queue, dense_problem(call));
}

void dense_backward_weights_cpu(const KernelCall& call) {
  void* bias = call.outputs.size() > 1 ? call.outputs[1].data : nullptr;
  product_cpu(call.queue, dense_backward_weights_problem(call), bias);
}

void dense_backward_bias_cpu(const KernelCall& call) {
  const TensorView& dy = call.inputs[0];
  channel_sum_cpu({dy.shape[0], dy.shape[1], 1, dy.dtype}, dy.data, call.outputs[0].data);
}

}  // namespace sluice::detail
