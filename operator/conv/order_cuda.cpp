#include <algorithm>

#include <sluice/operator/conv/shallow.h>
#include <sluice/operator/half_types.h>

namespace sluice::detail {
namespace {

// Whether tensor cores take the convolution; they want channels as neighbours, in whole vectors but for first layers.
// All else is quicker row by row.
MemoryOrder preferred_order(DType dtype, const Shape& weight, const ConvolutionAttributes& how, bool first_layer_too) {
  if (how.groups != 1 || !(is_half(dtype) || is_tf32(dtype)))
    return MemoryOrder::row_major;
  const std::int64_t vector = 16 / static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t inputs = weight[1];
  const bool fits = weight[0] % vector == 0 && (inputs % vector == 0 || (first_layer_too && inputs <= 4));
  return fits ? MemoryOrder::channels_last : MemoryOrder::row_major;
}

MemoryOrder weights_order(
    const NDArray& x, const NDArray& weight, const NDArray& result, const ConvolutionAttributes& how) {
  const ConvolutionGeometry g = convolution_geometry("convolution", x.shape(), weight.shape(), x.dtype(), how);
  if (is_shallow(g, ConvolutionPass::backward_weights))
    return order_of(result.shape(), result.strides());  // our kernels take either
  // In float32 the gradient of a first layer's weights is far from filling tensor cores.
  return preferred_order(g.dtype, weight.shape(), how, g.dtype != DType::float32);
}

}  // namespace

MemoryOrder convolution_order(std::span<const NDArray> inputs, const Attributes& attributes) {
  return preferred_order(inputs[0].dtype(), inputs[1].shape(), attributes.as<ConvolutionAttributes>(), true);
}

MemoryOrder convolution_weights_order(std::span<const NDArray> inputs, const Attributes& attributes) {
  return weights_order(inputs[0], inputs[2], inputs[1], attributes.as<ConvolutionAttributes>());
}

MemoryOrder convolution_relu_weights_order(std::span<const NDArray> inputs, const Attributes& attributes) {
  return weights_order(inputs[0], inputs[3], inputs[2], attributes.as<ConvolutionAttributes>());
}

MemoryOrder order_in(const KernelCall& call) {
  const auto is_last = [](const TensorView& array) {
    return order_of(array.shape, array.strides) == MemoryOrder::channels_last;
  };
  bool last = std::any_of(call.outputs.begin(), call.outputs.end(), is_last);
  for (std::size_t i = 0; i < call.inputs.size(); ++i)  // of some only the shape counts
    last = last || ((call.op.shape_inputs >> i & 1) == 0 && is_last(call.inputs[i]));
  return last ? MemoryOrder::channels_last : MemoryOrder::row_major;
}

ChannelView channels_of(const ConvolutionGeometry& g, MemoryOrder order) noexcept {
  if (order == MemoryOrder::channels_last)
    return {g.images * g.out_plane(), g.outputs, 1, g.dtype};
  return {g.images, g.outputs, g.out_plane(), g.dtype};
}

}  // namespace sluice::detail
