#include <sluice/operator/conv/onednn_cut.h>

#ifdef SLUICE_ONEDNN
#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/operator/library/one_thread.h>
#include <sluice/operator/library/widened.h>

namespace sluice::detail {

std::int64_t weights_of(const ConvolutionGeometry& g) {
  return g.outputs * g.depth();
}

ConvolutionCut::ConvolutionCut(ConvolutionPass pass, const ConvolutionGeometry& g) {
  const bool sums = pass == ConvolutionPass::backward_weights;
  const std::int64_t products = g.images * g.out_plane() * weights_of(g);
  std::int64_t most = pieces_worth(2.0 * static_cast<double>(products) / onednn_pace(g.dtype));
  if (most > 1)
    most += most % 2;  // two workers have as much to do
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

ConvolutionPart ConvolutionCut::part(const ConvolutionGeometry& g, std::int64_t piece) const {
  ConvolutionPart part{g, g.inputs * g.in_plane(), g.outputs * g.out_plane(), g.depth()};
  std::int64_t& extent = axis == CutAxis::images    ? part.g.images
                         : axis == CutAxis::outputs ? part.g.outputs
                                                    : part.g.inputs;
  extent = pieces.length_of(piece);
  return part;
}

ConvolutionData ConvolutionCut::data(
    const ConvolutionGeometry& g, const ConvolutionData& whole, std::int64_t piece) const {
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

ConvolutionPlans::ConvolutionPlans(
    Onednn& library, ConvolutionPass pass, const ConvolutionCut& cut, const ConvolutionGeometry& g, bool bias)
    : first(convolution_plan(library, pass, cut.part(g, 0), bias)), last(first), count(cut.pieces.count()) {
  if (count > 1)
    last = convolution_plan(library, pass, cut.part(g, count - 1), bias);
}

WeightsOfPieces::Beside::Beside(const Queue& queue, const OnednnPlan& plan, void* weight) : data(weight) {
  if (plan.weight.same)
    return;
  data = copy.emplace(queue, plan.weight.wanted.get_size()).data();
  const Onednn& library = Onednn::of(queue);
  dnnl::stream stream(library.engine);
  dnnl::memory from(plan.weight.ours, library.engine, weight), to(plan.weight.wanted, library.engine, data);
  plan.weight.copy.execute(stream, from, to);
}

WeightsOfPieces::WeightsOfPieces(
    const Queue& queue, const ConvolutionCut& cut, const ConvolutionPlans& plans, void* weight)
    : plans_(plans) {
  if (cut.axis != CutAxis::images)
    return;
  const OneThreadScope alone;
  first_.emplace(queue, *plans.first, weight);
  if (plans.last != plans.first)
    last_.emplace(queue, *plans.last, weight);
}

void WeightsOfPieces::pass(OnednnCall& call, std::int64_t piece, void* weight) const {
  const OnednnLayout& layout = plans_.of(piece).weight;
  const auto& beside = piece == plans_.count - 1 && last_ ? last_ : first_;
  if (beside)
    call.plain(DNNL_ARG_WEIGHTS, layout.wanted, beside->data);
  else
    call.input(DNNL_ARG_WEIGHTS, layout, weight);
}

namespace {

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

}  // namespace

void add_weights(
    const Queue& queue,
    const ConvolutionCut& cut,
    const ConvolutionGeometry& g,
    const ConvolutionData& data,
    const std::function<void(std::int64_t piece, const ConvolutionData& part)>& run) {
  const bool bias = data.bias_grad != nullptr, by_images = cut.axis == CutAxis::images;
  const std::int64_t beside = by_images ? cut.pieces.count() : 1;
  const bool in_place = beside == 1 && g.dtype == DType::float32;
  const std::int64_t weights = weights_of(g), stride = weights + (bias ? g.outputs : 0);
  const Workspace sums(queue, in_place ? 0 : static_cast<std::size_t>(beside * stride) * sizeof(float));
  for_each_piece(cut.pieces, [&](std::int64_t piece) {
    ConvolutionData part = cut.data(g, data, piece);
    if (!in_place) {
      const std::int64_t first = by_images ? 0 : cut.pieces.begin(piece);  // of the outputs
      float* const to = sums.as<float>() + (by_images ? piece * stride : 0);
      part.weight = to + first * g.depth();
      part.bias_grad = bias ? to + weights + first : nullptr;
    }
    run(piece, part);
  });
  if (in_place)
    return;
  add_parts(sums.as<float>(), beside, stride, weights, g.dtype, data.weight);
  if (bias)
    add_parts(sums.as<float>() + weights, beside, stride, g.outputs, g.dtype, data.bias_grad);
}

}  // namespace sluice::detail
#endif
