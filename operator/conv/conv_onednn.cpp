#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <sluice/engine/parallel.h>
#include <sluice/operator/conv/few_pixels.h>
#include <sluice/operator/conv/onednn_plan.h>
#include <sluice/operator/library/one_thread.h>
#include <sluice/operator/library/pieces.h>
#include <sluice/operator/library/widened.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

// Which extent the work is cut along.
enum class CutAxis : std::uint8_t { images, outputs, inputs };

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
    const std::int64_t products = g.images * g.out_plane() * weights_of(g);
    const std::int64_t most = pieces_worth(2.0 * static_cast<double>(products) / onednn_pace(g.dtype));
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

  ConvolutionPart part(const ConvolutionGeometry& g, std::int64_t piece) const {
    ConvolutionPart part{g, g.inputs * g.in_plane(), g.outputs * g.out_plane(), g.depth()};
    std::int64_t& extent = axis == CutAxis::images    ? part.g.images
                           : axis == CutAxis::outputs ? part.g.outputs
                                                      : part.g.inputs;
    extent = pieces.length_of(piece);
    return part;
  }

  ConvolutionData data(const ConvolutionGeometry& g, const ConvolutionData& whole, std::int64_t piece) const {
    const auto bytes = static_cast<std::int64_t>(size_of(g.dtype));
    const auto past = [bytes](void* data, std::int64_t elements) {
      return data == nullptr ? data : static_cast<char*>(data) + elements * bytes;
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

// Sums of pieces, one after the other, rounded once: to[i] = parts[0][i] + parts[1][i] + ... Changes parts[0].
void add_parts(float* parts, std::int64_t count, std::int64_t stride, std::int64_t n, DType dtype, void* to) {
  constexpr std::int64_t grain = 16 * 1024;
  parallel_for(n, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = 1; part < count; ++part) {
      const float* from = parts + part * stride;
      for (std::int64_t i = begin; i < end; ++i)
        parts[i] += from[i];
    }
  });
  narrow(parts, dtype, to, n);
}

// Makes what runs the first pieces and the last one, which may be shorter.
struct Plans {
  std::shared_ptr<const OnednnPlan> first, last;
  std::int64_t count;

  Plans(Onednn& library, ConvolutionPass pass, const Cutting& cutting, const ConvolutionGeometry& g, bool bias)
      : first(convolution_plan(library, pass, cutting.part(g, 0), bias)), last(first), count(cutting.pieces.count()) {
    if (count > 1)
      last = convolution_plan(library, pass, cutting.part(g, count - 1), bias);
  }
  bool usable() const { return first->usable && last->usable; }
  const OnednnPlan& of(std::int64_t piece) const { return piece == count - 1 ? *last : *first; }
};

// Gradients of the weight, by images beside each other, and of the bias: in float32, which half types are rounded from.
void run_weights(
    const Queue& queue,
    const Plans& plans,
    const Cutting& cutting,
    const ConvolutionGeometry& g,
    const ConvolutionData& data) {
  const bool bias = data.bias_grad != nullptr, by_images = cutting.axis == CutAxis::images;
  const std::int64_t beside = by_images ? plans.count : 1;
  const bool in_place = beside == 1 && g.dtype == DType::float32;
  const std::int64_t weights = weights_of(g), stride = weights + (bias ? g.outputs : 0);
  const Workspace sums(queue, in_place ? 0 : static_cast<std::size_t>(beside * stride) * sizeof(float));
  for_each_piece(cutting.pieces, [&](std::int64_t piece) {
    ConvolutionData part = cutting.data(g, data, piece);
    if (!in_place) {
      const std::int64_t first = by_images ? 0 : cutting.pieces.begin(piece);  // of the outputs
      float* const to = sums.as<float>() + (by_images ? piece * stride : 0);
      part.weight = to + first * g.depth();
      part.bias_grad = bias ? to + weights + first : nullptr;
    }
    run_piece(queue, ConvolutionPass::backward_weights, plans.of(piece), part, nullptr);
  });
  if (in_place)
    return;
  add_parts(sums.as<float>(), beside, stride, weights, g.dtype, data.weight);
  if (bias)
    add_parts(sums.as<float>() + weights, beside, stride, g.outputs, g.dtype, data.bias_grad);
}

bool run(const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  const Cutting cutting(pass, g);
  const Plans plans(Onednn::of(queue), pass, cutting, g, data.bias != nullptr || data.bias_grad != nullptr);
  if (!plans.usable())
    return false;
  if (pass == ConvolutionPass::backward_weights) {
    run_weights(queue, plans, cutting, g, data);
    return true;
  }
  std::optional<WeightsBeside> weights, last_weights;
  if (cutting.axis == CutAxis::images) {
    const OneThreadScope alone;
    weights.emplace(queue, *plans.first, data.weight);
    if (plans.last != plans.first)
      last_weights.emplace(queue, *plans.last, data.weight);
  }
  const std::int64_t last = plans.count - 1;
  for_each_piece(cutting.pieces, [&](std::int64_t piece) {
    const auto& beside = piece == last && last_weights ? last_weights : weights;
    run_piece(queue, pass, plans.of(piece), cutting.data(g, data, piece), beside ? &*beside : nullptr);
  });
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
