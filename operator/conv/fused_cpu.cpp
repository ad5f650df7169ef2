#include <sluice/operator/conv/fused.h>

namespace sluice::detail {

void convolution_fused_cpu(const KernelCall& call) {
  const ConvolutionFusedCall fused(call);
  const ConvolutionGeometry& g = fused.geometry;
  convolution_pass_cpu(call.queue, ConvolutionPass::forward, g, fused.data);
  channel_finish_cpu({g.images, g.outputs, g.out_plane(), g.dtype}, fused.data.y, fused.then);
}

}  // namespace sluice::detail
