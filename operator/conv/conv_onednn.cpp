#include <algorithm>
#include <optional>

#include <sluice/engine/parallel.h>
#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/library/onednn.h>
#include <sluice/operator/library/pieces.h>
#include <sluice/operator/library/team.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

// Which extent the work is cut along.
enum class CutAxis : std::uint8_t { images, outputs, inputs };

// A part of a convolution: its own geometry, and the strides of the whole in elements.
struct Part {
  ConvolutionGeometry g;
  std::int64_t x_image, y_image, weight_row;
};

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

Descriptors describe_free(const ConvolutionGeometry& g) {
  const auto f32 = memory::data_type::f32;
  const Extents of(g);
  return {{of.x, f32, Tag::any}, {of.weight, f32, Tag::any}, {of.bias, f32, Tag::a}, {of.y, f32, Tag::any}};
}

Descriptors describe_plain(const Part& part) {
  const auto f32 = memory::data_type::f32;
  const ConvolutionGeometry& g = part.g;
  const Extents of(g);
  const std::int64_t taps = g.kernel[0] * g.kernel[1];
  Dims weights{part.weight_row, taps, g.kernel[1], 1};
  if (g.groups != 1)
    weights.insert(weights.begin(), g.group_outputs() * part.weight_row);
  return {
      {of.x, f32, Dims{part.x_image, g.in_plane(), g.in[1], 1}},
      {of.weight, f32, weights},
      {of.bias, f32, Tag::a},
      {of.y, f32, Dims{part.y_image, g.out_plane(), g.out[1], 1}}};
}

Dims pair(const std::int64_t (&values)[2], std::int64_t less = 0) {
  return {values[0] - less, values[1] - less};
}

OnednnPlan make_plan(const dnnl::engine& engine, ConvolutionPass pass, const Part& part, bool bias) {
  const auto direct = dnnl::algorithm::convolution_direct;
  const ConvolutionGeometry& g = part.g;
  const Descriptors any = describe_free(g);
  const Descriptors plain = describe_plain(part);
  const Dims stride = pair(g.stride), dilation = pair(g.dilation, 1);
  const Dims pad = pair(g.pad), pad_end = pair(g.pad_end);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  using Forward = dnnl::convolution_forward;
  const auto describe_forward = [&](const auto&... what) {
    return onednn_describe<Forward>(engine, attributes, dnnl::prop_kind::forward_training, direct, what...);
  };
  const Forward::primitive_desc hint =
      bias ? describe_forward(any.x, any.weight, any.bias, any.y, stride, dilation, pad, pad_end)
           : describe_forward(any.x, any.weight, any.y, stride, dilation, pad, pad_end);
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

CacheKey key_of(ConvolutionPass pass, const Part& part, bool bias) {
  constexpr std::int64_t kind = 2;  // apart from other primitives in the cache
  const ConvolutionGeometry& g = part.g;
  CacheKey key = CacheKey::of(
      kind,
      static_cast<int>(pass),
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

// -- Cutting ----------------------------------------------------------------------------------------------------------

std::int64_t weights_of(const ConvolutionGeometry& g) {
  return g.outputs * g.depth();
}

// Images go one by one through the same weights. Where there are few, or where sums of weight gradients beside each
// other would cost more than passing x again, channels are cut: those that are not summed over.
struct Cutting {
  CutAxis axis = CutAxis::images;
  Pieces pieces;

  Cutting(ConvolutionPass pass, const ConvolutionGeometry& g) {
    const bool sums = pass == ConvolutionPass::backward_weights;
    const std::int64_t most = pieces_worth(2.0 * static_cast<double>(g.images * g.out_plane() * weights_of(g)));
    std::int64_t by_images = std::min(most, g.images);
    if (sums) {
      constexpr std::int64_t k_most_sums = 1 << 24;  // elements beside each other
      constexpr std::int64_t k_pixels = 256;         // that a sum is to be worth
      by_images = std::min({by_images, k_most_sums / weights_of(g), g.images * g.out_plane() / k_pixels});
    }
    pieces = pieces_of(g.images, std::max<std::int64_t>(1, by_images));
    if (g.groups != 1)
      return;
    const bool data = pass == ConvolutionPass::backward_data;
    const Pieces channels = pieces_of(data ? g.inputs : g.outputs, most, 16);
    const bool heavy_sums = sums && g.images * g.inputs * g.in_plane() < 3 * weights_of(g);
    if (channels.count() > pieces.count() || (heavy_sums && channels.count() == pieces.count())) {
      axis = data ? CutAxis::inputs : CutAxis::outputs;
      pieces = channels;
    }
  }

  Part part(const ConvolutionGeometry& g, std::int64_t piece) const {
    Part part{g, g.inputs * g.in_plane(), g.outputs * g.out_plane(), g.depth()};
    std::int64_t& extent = axis == CutAxis::images    ? part.g.images
                           : axis == CutAxis::outputs ? part.g.outputs
                                                      : part.g.inputs;
    extent = pieces.length_of(piece);
    return part;
  }

  ConvolutionData data(const ConvolutionGeometry& g, const ConvolutionData& whole, std::int64_t piece) const {
    const auto past = [](void* data, std::int64_t elements) {
      return data == nullptr ? data : static_cast<float*>(data) + elements;
    };
    const std::int64_t begin = pieces.begin(piece);
    ConvolutionData d = whole;
    if (axis == CutAxis::images) {
      d.x = past(whole.x, begin * g.inputs * g.in_plane());
      d.y = past(whole.y, begin * g.outputs * g.out_plane());
    } else if (axis == CutAxis::outputs) {
      d.y = past(whole.y, begin * g.out_plane());
      d.weight = past(whole.weight, begin * g.depth());
      d.bias = past(const_cast<void*>(whole.bias), begin);
      d.bias_grad = past(whole.bias_grad, begin);
    } else {
      d.x = past(whole.x, begin * g.in_plane());
      d.weight = past(whole.weight, begin * g.kernel[0] * g.kernel[1]);
    }
    return d;
  }
};

// -- Running ----------------------------------------------------------------------------------------------------------

// Weights in the layout of a primitive, for all pieces that it runs.
class WeightsBeside {
 public:
  WeightsBeside(const Queue& queue, const OnednnPlan& plan, void* weight) : data_(weight), same_(plan.weight.same) {
    if (same_)
      return;
    copy_.emplace(queue, plan.weight.wanted.get_size());
    data_ = copy_->data();
    const Onednn& library = Onednn::of(queue);
    dnnl::stream stream(library.engine);
    dnnl::memory from(plan.weight.ours, library.engine, weight), to(plan.weight.wanted, library.engine, data_);
    plan.weight.copy.execute(stream, from, to);
  }
  void pass(OnednnCall& call, const OnednnPlan& plan) const {
    call.plain(DNNL_ARG_WEIGHTS, same_ ? plan.weight.ours : plan.weight.wanted, data_);
  }

 private:
  void* data_;
  bool same_;
  std::optional<Workspace> copy_;
};

void run_piece(
    const Queue& queue,
    ConvolutionPass pass,
    const OnednnPlan& plan,
    const ConvolutionData& data,
    const WeightsBeside* weights) {
  OnednnCall call("convolution", queue, plan);
  const auto take_weights = [&] {
    if (weights != nullptr) {
      weights->pass(call, plan);
    } else {
      call.input(DNNL_ARG_WEIGHTS, plan.weight, data.weight);
    }
  };
  if (pass == ConvolutionPass::forward) {
    call.input(DNNL_ARG_SRC, plan.x, data.x);
    take_weights();
    if (data.bias != nullptr)
      call.plain(DNNL_ARG_BIAS, plan.bias, const_cast<void*>(data.bias));
    call.output(DNNL_ARG_DST, plan.y, data.y);
  } else if (pass == ConvolutionPass::backward_data) {
    call.input(DNNL_ARG_DIFF_DST, plan.y, data.y);
    take_weights();
    call.output(DNNL_ARG_DIFF_SRC, plan.x, data.x);
  } else {
    call.input(DNNL_ARG_SRC, plan.x, data.x);
    call.input(DNNL_ARG_DIFF_DST, plan.y, data.y);
    if (data.bias_grad != nullptr)
      call.plain(DNNL_ARG_DIFF_BIAS, plan.bias, data.bias_grad);
    call.output(DNNL_ARG_DIFF_WEIGHTS, plan.weight, data.weight);
  }
  call.run();
}

// Sums of pieces, one after the other: to[i] = parts[0][i] + parts[1][i] + ...
void add_parts(const float* parts, std::int64_t count, std::int64_t stride, std::int64_t n, float* to) {
  parallel_for(n, 16 * 1024, [=](std::int64_t begin, std::int64_t end) {
    std::copy(parts + begin, parts + end, to + begin);
    for (std::int64_t part = 1; part < count; ++part) {
      const float* from = parts + part * stride;
      for (std::int64_t i = begin; i < end; ++i)
        to[i] += from[i];
    }
  });
}

}  // namespace

bool convolution_onednn(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  if (g.dtype != DType::float32 || g.x_shape().size() == 0 || g.weight_shape().size() == 0)
    return false;
  if (!has_onednn("convolution"))
    return false;
  Onednn& library = Onednn::of(queue);
  const bool bias = data.bias != nullptr || data.bias_grad != nullptr;
  const Cutting cutting(pass, g);
  const Pieces& pieces = cutting.pieces;
  const auto plan_for = [&](std::int64_t piece) {
    const TeamScope alone(1);
    const Part part = cutting.part(g, piece);
    return library.plans.get(key_of(pass, part, bias), [&] {
      return onednn_plan([&] { return make_plan(library.engine, pass, part, bias); });
    });
  };
  const std::int64_t last = pieces.count() - 1;
  const auto plan = plan_for(0), last_plan = plan_for(last);
  if (!plan->usable || !last_plan->usable)
    return false;
  const auto plan_of = [&](std::int64_t piece) -> const OnednnPlan& { return piece == last ? *last_plan : *plan; };

  if (pass == ConvolutionPass::backward_weights && cutting.axis == CutAxis::images && last > 0) {
    const std::int64_t weights = weights_of(g), stride = weights + (bias ? g.outputs : 0);
    const Workspace sums(queue, static_cast<std::size_t>(pieces.count() * stride) * sizeof(float));
    for_each_piece(pieces, [&](std::int64_t piece) {
      ConvolutionData part = cutting.data(g, data, piece);
      part.weight = sums.as<float>() + piece * stride;
      part.bias_grad = bias ? sums.as<float>() + piece * stride + weights : nullptr;
      run_piece(queue, pass, plan_of(piece), part, nullptr);
    });
    add_parts(sums.as<float>(), pieces.count(), stride, weights, static_cast<float*>(data.weight));
    if (bias)
      add_parts(sums.as<float>() + weights, pieces.count(), stride, g.outputs, static_cast<float*>(data.bias_grad));
    return true;
  }
  std::optional<WeightsBeside> weights, last_weights;
  if (pass != ConvolutionPass::backward_weights && cutting.axis == CutAxis::images) {
    const TeamScope alone(1);
    weights.emplace(queue, *plan, data.weight);
    if (last_plan != plan)
      last_weights.emplace(queue, *last_plan, data.weight);
  }
  for_each_piece(pieces, [&](std::int64_t piece) {
    const auto& beside = piece == last && last_weights ? last_weights : weights;
    run_piece(queue, pass, plan_of(piece), cutting.data(g, data, piece), beside ? &*beside : nullptr);
  });
  return true;
}

#else
bool convolution_onednn(const Queue&, ConvolutionPass, const ConvolutionGeometry&, const ConvolutionData&) {
  return false;
}
#endif

}  // namespace sluice::detail
