#include <utility>
#include <vector>

#include <sluice/operator/conv/masked.h>
#include <sluice/operator/conv/onednn_cut.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN

bool masked_weights_onednn(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const void* result) {
  if (g.dtype != DType::float32 || g.x_shape().size() == 0 || g.weight_shape().size() == 0 ||
      !has_onednn("convolution"))
    return false;
  const ConvolutionCut cut(ConvolutionPass::backward_weights, g);
  if (cut.axis != CutAxis::images)
    return false;
  const ConvolutionPlans plans(Onednn::of(queue), ConvolutionPass::backward_weights, cut, g, false);
  if (!plans.usable())
    return false;
  ConvolutionData whole = data;
  auto* const bias = static_cast<float*>(std::exchange(whole.bias_grad, nullptr));
  std::vector<double> sums(bias == nullptr ? 0 : static_cast<std::size_t>(g.images * g.outputs));
  add_weights(queue, cut, g, whole, [&](std::int64_t piece, const ConvolutionData& part) {
    const std::int64_t plane = g.out_plane(), first = cut.pieces.begin(piece) * g.outputs;
    const std::int64_t planes = cut.pieces.length_of(piece) * g.outputs;
    const Workspace masked(queue, static_cast<std::size_t>(planes * plane) * sizeof(float));
    for (std::int64_t i = 0; i < planes; ++i) {
      float* const to = masked.as<float>() + i * plane;
      const auto* const y = static_cast<const float*>(result) + (first + i) * plane;
      relu_floats_backward(static_cast<const float*>(part.y) + i * plane, y, plane, to);
      if (bias != nullptr)
        sums[static_cast<std::size_t>(first + i)] = plane_sum_cpu(to, plane);
    }
    const OnednnPlan& plan = plans.of(piece);
    OnednnCall call("convolution", queue, plan);
    call.input(DNNL_ARG_SRC, plan.x, part.x);
    call.input(DNNL_ARG_DIFF_DST, plan.y, masked.data());
    call.output(DNNL_ARG_DIFF_WEIGHTS, plan.weight, part.weight);
    call.run();
  });
  if (bias != nullptr)
    channel_totals_cpu(g.images, g.outputs, sums.data(), bias);
  return true;
}

#else
bool masked_weights_onednn(const Queue&, const ConvolutionGeometry&, const ConvolutionData&, const void*) {
  return false;
}
#endif

}  // namespace sluice::detail
