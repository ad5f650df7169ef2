#include <span>

#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/unpooled_relu.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/pool/geometry.h>
#include <sluice/operator/pool/pool.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

// Inputs: the gradient of the maxima, where they were, the result of relu.
Specs infer_unpooled_relu(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& y = inputs[2];
  check_floating(op.name, y);
  const Shape maxima = pooled_shape(y.shape, pool_geometry(op.name, y.shape, attributes.as<PoolAttributes>()));
  check_like(op.name, "the gradient", inputs[0], maxima, y.dtype);
  check_like(op.name, "where the maxima were", inputs[1], maxima, DType::int32);
  return {{y.shape, y.dtype, y.device}, {{y.shape[1]}, y.dtype, y.device}};
}

MemoryOrder order_of_result(std::span<const NDArray> inputs, const Attributes&) {
  return order_of(inputs[2].shape(), inputs[2].strides());
}

// The gradient of the maxima comes row by row from layers that know no images.
bool is_row_by_row(std::size_t, const Shape& shape, const Shape& strides) {
  return strides == contiguous_strides(shape);
}

}  // namespace

void unpooled_relu_in_two(const KernelCall& call) {
  const DeviceKind kind = call.queue.device().kind;
  const TensorView& y = call.inputs[2];
  const Workspace room(call.queue, static_cast<std::size_t>(y.size) * size_of(y.dtype));
  TensorView unpooled = y;
  unpooled.data = room.data();
  const TensorView maxima[] = {call.inputs[0], call.inputs[1], y};
  max_pool2d_backward_op.kernels[kind](
      {max_pool2d_backward_op, call.queue, maxima, std::span(&unpooled, 1), call.attributes});
  const TensorView heads[] = {unpooled, y};
  convolution_relu_backward_op.kernels[kind](
      {convolution_relu_backward_op, call.queue, heads, call.outputs, call.attributes});
}

const Operator max_pool2d_relu_backward_op{
    .name = "max_pool2d_relu_backward",
    .inputs = 3,
    .outputs = 2,
    .attributes = &attribute_type<PoolAttributes>,
    .infer = infer_unpooled_relu,
    .kernels = {on_cpu(unpooled_relu_in_two), on_gpu(SLUICE_GPU_KERNEL(unpooled_relu_gpu))},
    .strided_inputs = 0b1,
    .takes_strides = is_row_by_row,
    .order = order_of_result,
};

}  // namespace sluice::detail
