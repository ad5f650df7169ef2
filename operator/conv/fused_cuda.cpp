#include <sluice/operator/conv/first_layer.h>
#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/shallow.h>
#include <sluice/operator/conv/strip_tiles.h>
#include <sluice/operator/conv/tensor_tiles.h>

namespace sluice::detail {

MemoryOrder convolution_fused_order(std::span<const NDArray> inputs, const Attributes& attributes) {
  const ConvolutionAttributes how = attributes.as<ConvolutionFusedAttributes>().convolution();
  return convolution_order(inputs, Attributes::of(how));
}

void convolution_fused_gpu(const KernelCall& call) {
  const ConvolutionFusedCall fused(call);
  const ConvolutionGeometry& g = fused.geometry;
  const MemoryOrder order = order_in(call);
  const bool none = g.x_shape().size() == 0 || g.weight_shape().size() == 0 || g.y_shape().size() == 0;
  // First layers fill no tensor cores: our own kernel there is quicker with a pass behind it than a library's.
  if (is_shallow(g, ConvolutionPass::forward))
    shallow_forward_gpu(call.queue, g, order, fused.data, false);
  else if (
      !none && fused.then.residual == nullptr &&
      is_first_layer(call.queue, ConvolutionPass::forward, g, order, fused.data.y))
    return first_layer_forward_gpu(call.queue, g, fused.data, fused.then);
  else if (!none && is_tiled(call.queue, g, order, fused.data, fused.then))
    return convolution_by_tiles(call.queue, g, fused.data, fused.then);
  else if (!none && ran_by_strips(call.queue, ConvolutionPass::forward, g, order, fused.data, fused.then))
    return;
  else if (!none && convolution_fused_by_plan(call.queue, g, order, fused.data, fused.then))
    return;
  else
    convolution_sums_gpu(call.queue, g, order, fused.data);
  channel_finish_gpu(call.queue, channels_of(g, order), fused.data.y, fused.then);
}

}  // namespace sluice::detail
