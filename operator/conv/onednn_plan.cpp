#ifdef SLUICE_ONEDNN
#include <sluice/operator/conv/onednn_plan.h>
#include <sluice/operator/library/one_thread.h>

namespace sluice::detail {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

// x, weight, bias, y as oneDNN's descriptors: plain, or of a layout that the primitive chooses.
struct Descriptors {
  memory::desc x, weight, bias, y;
};

struct Extents {
  Dims x, weight, bias, y;

  explicit Extents(const ConvolutionGeometry& g)
      : x{g.images, g.inputs, g.in[0], g.in[1]},
        weight{g.outputs, g.inputs, g.kernel[0], g.kernel[1]},
        bias{g.outputs},
        y{g.images, g.outputs, g.out[0], g.out[1]} {
    if (g.groups != 1)
      weight = {g.groups, g.group_outputs(), g.group_inputs(), g.kernel[0], g.kernel[1]};
  }
};

// Sums over images are rounded by whoever has all of them.
memory::data_type weights_type(ConvolutionPass pass, const ConvolutionGeometry& g) {
  return onednn_type(pass == ConvolutionPass::backward_weights ? DType::float32 : g.dtype);
}

Descriptors describe_free(ConvolutionPass pass, const ConvolutionGeometry& g) {
  const auto type = onednn_type(g.dtype), weights = weights_type(pass, g);
  const Extents of(g);
  return {{of.x, type, Tag::any}, {of.weight, weights, Tag::any}, {of.bias, weights, Tag::a}, {of.y, type, Tag::any}};
}

Descriptors describe_plain(ConvolutionPass pass, const ConvolutionPart& part) {
  const ConvolutionGeometry& g = part.g;
  const auto type = onednn_type(g.dtype), weights = weights_type(pass, g);
  const Extents of(g);
  const std::int64_t taps = g.kernel[0] * g.kernel[1];
  Dims strides{part.weight_row, taps, g.kernel[1], 1};
  if (g.groups != 1)
    strides.insert(strides.begin(), g.group_outputs() * part.weight_row);
  return {
      {of.x, type, Dims{part.x_image, g.in_plane(), g.in[1], 1}},
      {of.weight, weights, strides},
      {of.bias, weights, Tag::a},
      {of.y, type, Dims{part.y_image, g.out_plane(), g.out[1], 1}}};
}

Dims pair(const std::int64_t (&values)[2], std::int64_t less = 0) {
  return {values[0] - less, values[1] - less};
}

OnednnPlan make_plan(const dnnl::engine& engine, ConvolutionPass pass, const ConvolutionPart& part, bool bias) {
  const auto direct = dnnl::algorithm::convolution_direct;
  const ConvolutionGeometry& g = part.g;
  const Descriptors any = describe_free(pass, g), forward = describe_free(ConvolutionPass::forward, g);
  const Descriptors plain = describe_plain(pass, part);
  const Dims stride = pair(g.stride), dilation = pair(g.dilation, 1);
  const Dims pad = pair(g.pad), pad_end = pair(g.pad_end);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  using Forward = dnnl::convolution_forward;
  const auto describe_forward = [&](const auto&... what) {
    return onednn_describe<Forward>(engine, attributes, dnnl::prop_kind::forward_training, direct, what...);
  };
  const Forward::primitive_desc hint =
      bias ? describe_forward(any.x, forward.weight, forward.bias, any.y, stride, dilation, pad, pad_end)
           : describe_forward(any.x, forward.weight, any.y, stride, dilation, pad, pad_end);
  OnednnPlan plan;
  plan.bias = plain.bias;
  const auto keep = [&](const auto& chosen, const memory::desc& x, const memory::desc& w, const memory::desc& y) {
    plan.usable = onednn_is_worth(chosen, g.dtype);
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
        engine, attributes, hint, direct, any.x, any.weight, any.y, stride, dilation, pad, pad_end);
    plan.primitive = Backward(chosen);
    keep(chosen, chosen.diff_src_desc(), chosen.weights_desc(), chosen.diff_dst_desc());
  } else {
    using Backward = dnnl::convolution_backward_weights;
    const auto describe_backward = [&](const auto&... what) {
      return onednn_describe_backward<Backward>(engine, attributes, hint, direct, what...);
    };
    const Backward::primitive_desc chosen =
        bias ? describe_backward(any.x, any.weight, any.bias, any.y, stride, dilation, pad, pad_end)
             : describe_backward(any.x, any.weight, any.y, stride, dilation, pad, pad_end);
    plan.primitive = Backward(chosen);
    keep(chosen, chosen.src_desc(), chosen.diff_weights_desc(), chosen.diff_dst_desc());
  }
  return plan;
}

CacheKey key_of(ConvolutionPass pass, const ConvolutionPart& part, bool bias) {
  constexpr std::int64_t kind = 2;  // apart from other primitives in the cache
  const ConvolutionGeometry& g = part.g;
  CacheKey key = CacheKey::of(
      kind,
      static_cast<int>(pass),
      static_cast<int>(g.dtype),
      bias,
      g.images,
      g.inputs,
      g.outputs,
      g.groups,
      part.x_image,
      part.y_image,
      part.weight_row);
  for (const auto* values : {&g.in, &g.kernel, &g.stride, &g.pad, &g.pad_end, &g.dilation}) {
    key.add((*values)[0]);
    key.add((*values)[1]);
  }
  return key;
}

}  // namespace

std::shared_ptr<const OnednnPlan> convolution_plan(
    Onednn& library, ConvolutionPass pass, const ConvolutionPart& part, bool bias) {
  const OneThreadScope alone;
  return library.plans.get(key_of(pass, part, bias), [&] {
    return onednn_plan([&] { return make_plan(library.engine, pass, part, bias); });
  });
}

}  // namespace sluice::detail
#endif
