#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <sluice/engine/parallel.h>
#include <sluice/operator/conv/few_pixels.h>
#include <sluice/operator/conv/onednn_cut.h>
#include <sluice/operator/library/one_thread.h>
#include <sluice/operator/library/widened.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

// Gradients of weights are given none.
void run_piece(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionPlans& plans,
    std::int64_t piece,
    const ConvolutionData& data,
    const WeightsOfPieces* weights,
    bool relu = false) {
  const OnednnPlan& plan = plans.of(piece);
  OnednnCall call("convolution", queue, plan);
  if (pass == ConvolutionPass::forward) {
    call.input(DNNL_ARG_SRC, plan.x, data.x);
    weights->pass(call, piece, data.weight);
    if (data.bias != nullptr)
      call.plain(DNNL_ARG_BIAS, plan.bias, const_cast<void*>(data.bias));
    call.output(DNNL_ARG_DST, plan.y, data.y);
  } else if (pass == ConvolutionPass::backward_data) {
    call.input(DNNL_ARG_DIFF_DST, plan.y, data.y);
    weights->pass(call, piece, data.weight);
    call.output(DNNL_ARG_DIFF_SRC, plan.x, data.x);
  } else {
    call.input(DNNL_ARG_SRC, plan.x, data.x);
    call.input(DNNL_ARG_DIFF_DST, plan.y, data.y);
    if (data.bias_grad != nullptr)
      call.plain(DNNL_ARG_DIFF_BIAS, plan.bias, data.bias_grad);
    call.output(DNNL_ARG_DIFF_WEIGHTS, plan.weight, data.weight);
  }
  call.run(relu ? relu_floats : nullptr);
}

bool run(const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  const ConvolutionCut cut(pass, g);
  const ConvolutionPlans plans(Onednn::of(queue), pass, cut, g, data.bias != nullptr || data.bias_grad != nullptr);
  if (!plans.usable())
    return false;
  if (pass == ConvolutionPass::backward_weights) {
    add_weights(queue, cut, g, data, [&](std::int64_t piece, const ConvolutionData& part) {
      run_piece(queue, pass, plans, piece, part, nullptr);
    });
    return true;
  }
  const WeightsOfPieces weights(queue, cut, plans, data.weight);
  // While sums are in the caches, where they are copied from there anyway.
  const bool relu = data.relu && g.dtype == DType::float32;
  const bool at_once = relu && !plans.first->y.same && !plans.last->y.same;
  for_each_piece(cut.pieces, [&](std::int64_t piece) {
    run_piece(queue, pass, plans, piece, cut.data(g, data, piece), &weights, at_once);
  });
  if (relu && !at_once)
    channel_add_cpu({g.images, g.outputs, g.out_plane(), g.dtype}, data.y, nullptr, true);
  return true;
}

// Whether windows fit into the image, and all of them touch it: kernels of oneDNN 2.6 for AMX crash where some do not,
// and take numbers from memory that nobody wrote where the image is smaller.
bool windows_fit(const ConvolutionGeometry& g) {
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t reach = g.dilation[axis] * (g.kernel[axis] - 1);
    if (g.in[axis] <= reach || g.pad[axis] > reach || (g.out[axis] - 1) * g.stride[axis] - g.pad[axis] >= g.in[axis])
      return false;
  }
  return true;
}

// Whether half types go to oneDNN as they are. Its kernels for them fill up what they read of few channels with what
// lies beside, times zero: NaN would come into numbers that have nothing to do with it.
bool takes_half(ConvolutionPass pass, const ConvolutionGeometry& g) {
  constexpr std::int64_t k_least_channels = 8, k_channels_read = 32;
  const bool by_channel = g.groups != 1 && g.group_inputs() == 1 && g.group_outputs() == 1;
  if (!windows_fit(g))
    return false;
  if (pass == ConvolutionPass::backward_weights && (g.dilation[0] != 1 || g.dilation[1] != 1))
    return false;
  if (pass != ConvolutionPass::forward || by_channel)
    return true;
  return g.group_inputs() >= k_least_channels && (g.groups == 1 || g.group_inputs() % k_channels_read == 0);
}

// By way of float32, which what is not in it is copied to, and what comes out of it is rounded from.
bool run_widened(const Queue& queue, ConvolutionPass pass, ConvolutionGeometry g, const ConvolutionData& data) {
  const DType narrow_type = std::exchange(g.dtype, DType::float32);
  const auto given = [&](ConvolutionPass without, const void* values, std::int64_t n) {
    return Widened(queue, narrow_type, pass == without ? nullptr : values, n);
  };
  const std::int64_t x_size = g.x_shape().size(), y_size = g.y_shape().size();
  const Widened x = given(ConvolutionPass::backward_data, data.x, x_size);
  const Widened weight = given(ConvolutionPass::backward_weights, data.weight, weights_of(g));
  const Widened y = given(ConvolutionPass::forward, data.y, y_size);
  const Widened bias(queue, narrow_type, data.bias, data.bias == nullptr ? 0 : g.outputs);
  const Widened bias_grad(queue, narrow_type, nullptr, data.bias_grad == nullptr ? 0 : g.outputs);
  if (!run(queue, pass, g, {x.data(), weight.data(), y.data(), bias.data(), bias_grad.data()}))
    return false;
  switch (pass) {
    case ConvolutionPass::forward:
      narrow(y.data(), narrow_type, data.y, y_size);
      break;
    case ConvolutionPass::backward_data:
      narrow(x.data(), narrow_type, data.x, x_size);
      break;
    case ConvolutionPass::backward_weights:
      narrow(weight.data(), narrow_type, data.weight, weights_of(g));
      if (data.bias_grad != nullptr)
        narrow(bias_grad.data(), narrow_type, data.bias_grad, g.outputs);
  }
  return true;
}

}  // namespace

bool convolution_onednn(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  if (onednn_type(g.dtype) == dnnl::memory::data_type::undef || g.x_shape().size() == 0 || g.weight_shape().size() == 0)
    return false;
  if (!has_onednn("convolution"))
    return false;
  const bool half = g.dtype != DType::float32;
  if (onednn_computes(g.dtype) && (!half || takes_half(pass, g))) {
    if ((half && convolution_of_few_pixels(queue, pass, g, data)) || run(queue, pass, g, data))
      return true;
  }
  return half && run_widened(queue, pass, g, data);
}

#else
bool convolution_onednn(const Queue&, ConvolutionPass, const ConvolutionGeometry&, const ConvolutionData&) {
  return false;
}
#endif

}  // namespace sluice::detail
