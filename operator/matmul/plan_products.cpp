#include <array>

#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/matmul/small_product.h>

namespace sluice::detail {

namespace {

void mask_result(const KernelCall& call) {
  static const Attributes none;
  const TensorView& product = call.outputs[0];
  const std::array<TensorView, 3> inputs{product, product, call.inputs[2]};
  const Operator& relu = relu_backward_operator();
  relu.kernels[call.queue.device().kind]({relu, call.queue, inputs, call.outputs, none});
}

}  // namespace

void matmul_relu_backward_cpu(const KernelCall& call) {
  matmul_cpu({matmul_op, call.queue, call.inputs.first(2), call.outputs, call.attributes});
  mask_result(call);
}

#if SLUICE_CUDA
void matmul_relu_backward_gpu(const KernelCall& call) {
  const TensorView& to = call.outputs[0];
  if (to.size == 0)
    return;
  const auto product = batched_product(call.inputs[0], call.inputs[1], to, call.attributes.as<MatmulAttributes>());
  bool masked = true;
  for_each_product(product, [&](GemmProblem problem) {
    const auto offset = static_cast<const char*>(problem.c.data) - static_cast<const char*>(to.data);
    const bool real = problem.batch * problem.m * problem.n * problem.k > 0;
    if (real && is_small_product(problem))
      problem.mask = static_cast<const char*>(call.inputs[2].data) + offset;
    masked = masked && problem.mask != nullptr;
    product_gpu(call.queue, problem);
  });
  if (!masked)
    mask_result(call);
}

void dense_backward_bias_gpu(const KernelCall& call) {
  const TensorView& dy = call.inputs[0];
  channel_sum_gpu(call.queue, {dy.shape[0], dy.shape[1], 1, dy.dtype}, dy.data, call.outputs[0].data);
}
#endif

}  // namespace sluice::detail
