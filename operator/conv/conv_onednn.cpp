#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/library/onednn.h>
#include <sluice/operator/library/team.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

// x, weight, bias, y as oneDNN's descriptors: plain, or of a layout that the primitive chooses.
struct Descriptors {
  memory::desc x, weight, bias, y;
};

Descriptors describe(const ConvolutionGeometry& g, bool free_layout) {
  const auto f32 = memory::data_type::f32;
  const Tag nchw = free_layout ? Tag::any : Tag::nchw;
  Descriptors d;
  d.x = {Dims{g.images, g.inputs, g.in[0], g.in[1]}, f32, nchw};
  d.y = {Dims{g.images, g.outputs, g.out[0], g.out[1]}, f32, nchw};
  d.bias = {Dims{g.outputs}, f32, Tag::a};
  if (g.groups == 1) {
    d.weight = {Dims{g.outputs, g.inputs, g.kernel[0], g.kernel[1]}, f32, free_layout ? Tag::any : Tag::oihw};
  } else {
    const Dims dims{g.groups, g.group_outputs(), g.group_inputs(), g.kernel[0], g.kernel[1]};
    d.weight = {dims, f32, free_layout ? Tag::any : Tag::goihw};
  }
  return d;
}

Dims pair(const std::int64_t (&values)[2], std::int64_t less = 0) {
  return {values[0] - less, values[1] - less};
}

OnednnPlan make_plan(const dnnl::engine& engine, ConvolutionPass pass, const ConvolutionGeometry& g, bool bias) {
  const auto direct = dnnl::algorithm::convolution_direct;
  const Descriptors any = describe(g, true);
  const Descriptors plain = describe(g, false);
  const Dims stride = pair(g.stride), dilation = pair(g.dilation, 1), pad = pair(g.pad);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  using Forward = dnnl::convolution_forward;
  const auto describe_forward = [&](const auto&... what) {
    return onednn_describe<Forward>(engine, attributes, dnnl::prop_kind::forward_training, direct, what...);
  };
  const Forward::primitive_desc hint =
      bias ? describe_forward(any.x, any.weight, any.bias, any.y, stride, dilation, pad, pad)
           : describe_forward(any.x, any.weight, any.y, stride, dilation, pad, pad);
  OnednnPlan plan;
  plan.bias = plain.bias;
  const auto keep = [&](const auto& chosen, const memory::desc& x, const memory::desc& w, const memory::desc& y) {
    plan.scratch = chosen.scratchpad_desc();
    plan.x = OnednnLayout(engine, plain.x, x, pass == ConvolutionPass::backward_data);
    plan.weight = OnednnLayout(engine, plain.weight, w, pass == ConvolutionPass::backward_weights);
    plan.y = OnednnLayout(engine, plain.y, y, pass == ConvolutionPass::forward);
  };
  if (pass == ConvolutionPass::forward) {
    plan.primitive = Forward(hint);
    keep(hint, hint.src_desc(), hint.weights_desc(), hint.dst_desc());
  } else if (pass == ConvolutionPass::backward_data) {
    using Backward = dnnl::convolution_backward_data;
    const auto chosen = onednn_describe_backward<Backward>(
        engine, attributes, hint, direct, any.x, any.weight, any.y, stride, dilation, pad, pad);
    plan.primitive = Backward(chosen);
    keep(chosen, chosen.diff_src_desc(), chosen.weights_desc(), chosen.diff_dst_desc());
  } else {
    using Backward = dnnl::convolution_backward_weights;
    const auto describe_backward = [&](const auto&... what) {
      return onednn_describe_backward<Backward>(engine, attributes, hint, direct, what...);
    };
    const Backward::primitive_desc chosen =
        bias ? describe_backward(any.x, any.weight, any.bias, any.y, stride, dilation, pad, pad)
             : describe_backward(any.x, any.weight, any.y, stride, dilation, pad, pad);
    plan.primitive = Backward(chosen);
    keep(chosen, chosen.src_desc(), chosen.diff_weights_desc(), chosen.diff_dst_desc());
  }
  return plan;
}

CacheKey key_of(int threads, ConvolutionPass pass, const ConvolutionGeometry& g, bool bias) {
  constexpr std::int64_t kind = 2;  // apart from other primitives in the cache
  CacheKey key = CacheKey::of(kind, threads, static_cast<int>(pass), bias, g.images, g.inputs, g.outputs, g.groups);
  for (const auto* values : {&g.in, &g.kernel, &g.stride, &g.pad, &g.dilation}) {
    key.add((*values)[0]);
    key.add((*values)[1]);
  }
  return key;
}

}  // namespace

bool convolution_onednn(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  if (g.dtype != DType::float32 || g.x_shape().size() == 0 || g.weight_shape().size() == 0)
    return false;
  if (!has_onednn("convolution"))
    return false;
  const TeamScope team(queue.threads());
  Onednn& library = Onednn::of(queue);
  const bool bias = data.bias != nullptr || data.bias_grad != nullptr;
  const auto plan = library.plans.get(key_of(team.threads(), pass, g, bias), [&] {
    return onednn_plan([&] { return make_plan(library.engine, pass, g, bias); });
  });
  if (!plan->usable)
    return false;
  OnednnCall call("convolution", queue, *plan);
  if (pass == ConvolutionPass::forward) {
    call.input(DNNL_ARG_SRC, plan->x, data.x);
    call.input(DNNL_ARG_WEIGHTS, plan->weight, data.weight);
    if (bias)
      call.plain(DNNL_ARG_BIAS, plan->bias, const_cast<void*>(data.bias));
    call.output(DNNL_ARG_DST, plan->y, data.y);
  } else if (pass == ConvolutionPass::backward_data) {
    call.input(DNNL_ARG_DIFF_DST, plan->y, data.y);
    call.input(DNNL_ARG_WEIGHTS, plan->weight, data.weight);
    call.output(DNNL_ARG_DIFF_SRC, plan->x, data.x);
  } else {
    call.input(DNNL_ARG_SRC, plan->x, data.x);
    call.input(DNNL_ARG_DIFF_DST, plan->y, data.y);
    if (bias)
      call.plain(DNNL_ARG_DIFF_BIAS, plan->bias, data.bias_grad);
    call.output(DNNL_ARG_DIFF_WEIGHTS, plan->weight, data.weight);
  }
  call.run();
  return true;
}

#else
bool convolution_onednn(const Queue&, ConvolutionPass, const ConvolutionGeometry&, const ConvolutionData&) {
  return false;
}
#endif

}  // namespace sluice::detail
