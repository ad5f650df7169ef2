#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/conv/onednn_cut.h>
#include <sluice/operator/conv/pooled.h>
#include <sluice/operator/library/one_thread.h>
#include <sluice/operator/simd/block_rows.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// How oneDNN lets sums lie: blocks of channels, which lie beside each other in each pixel. Strides in floats.
struct ChannelBlocks {
  std::int64_t block = 0;  // channels of one; 0: otherwise
  std::int64_t count = 0, image = 0, next = 0, pixel = 0;

  ChannelBlocks() = default;
  ChannelBlocks(const ConvolutionGeometry& g, const memory::desc& lies) {
    const memory::dims extents{g.images, g.outputs, g.out[0], g.out[1]};
    const auto is = [&](Tag tag) { return memory::desc(extents, memory::data_type::f32, tag) == lies; };
    if (is(Tag::aBcd16b) || is(Tag::aBcd8b)) {
      block = is(Tag::aBcd16b) ? 16 : 8;
      count = (g.outputs + block - 1) / block;
      next = g.out_plane() * block;
      image = count * next;
      pixel = block;
    } else if (g.outputs % 16 == 0 && is(Tag::acdb)) {
      block = next = 16;
      count = g.outputs / block;
      image = g.out_plane() * g.outputs;
      pixel = g.outputs;
    }
  }
};

// What is the same of all pieces but the last, which may be shorter.
struct PieceForm {
  ConvolutionGeometry g;
  ChannelBlocks blocks;
  std::shared_ptr<const OnednnPlan> maxima;  // between our order and blocks of channels
};

// Which images and channels a piece is of.
struct PieceRange {
  std::int64_t image = 0, channel = 0;

  PieceRange(const ConvolutionCut& cut, std::int64_t piece) {
    (cut.axis == CutAxis::images ? image : channel) = cut.pieces.begin(piece);
  }
};

memory::desc maxima_beside(const PieceForm& form, const PooledGeometry& p) {
  const memory::dims extents{form.g.images, form.g.outputs, p.out[0], p.out[1]};
  return {extents, memory::data_type::f32, form.blocks.block == 16 ? Tag::aBcd16b : Tag::aBcd8b};
}

std::shared_ptr<const OnednnPlan> maxima_plan(
    Onednn& library, const PieceForm& form, const PooledGeometry& p, bool forward) {
  constexpr std::int64_t kind = 4;  // apart from other primitives in the cache
  const ConvolutionGeometry& g = form.g;
  const CacheKey key =
      CacheKey::of(kind, forward, g.images, g.outputs, p.g.outputs, p.out[0], p.out[1], form.blocks.block);
  const OneThreadScope alone;
  return library.plans.get(key, [&] {
    return onednn_plan([&] {
      const std::int64_t plane = p.out_plane();
      const memory::dims extents{g.images, g.outputs, p.out[0], p.out[1]};
      const memory::dims strides{p.g.outputs * plane, plane, p.out[1], 1};
      OnednnPlan plan;
      plan.y =
          OnednnLayout(library.engine, {extents, memory::data_type::f32, strides}, maxima_beside(form, p), forward);
      return plan;
    });
  });
}

// A pass in pieces of which blocks of channels are known.
class PooledPieces {
 public:
  PooledPieces(const Queue& queue, ConvolutionPass pass, const PooledGeometry& p, bool bias)
      : cut(pass, p.g), plans(Onednn::of(queue), pass, cut, p.g, bias), queue_(queue), p_(p) {
    for (const bool last : {false, true}) {
      PieceForm& form = last ? last_ : first_;
      const std::int64_t piece = last ? plans.count - 1 : 0;
      const OnednnPlan& plan = plans.of(piece);
      form.g = cut.part(p.g, piece).g;
      if (plan.usable)
        form.blocks = ChannelBlocks(form.g, plan.y.wanted);
      rows_ = simd::block_rows(form.blocks.block);
      usable_ = usable_ && plan.usable && rows_ != nullptr;
      if (!usable_)
        return;
      form.maxima = maxima_plan(Onednn::of(queue), form, p, pass == ConvolutionPass::forward);
      usable_ = form.maxima->usable;
    }
  }

  bool usable() const { return usable_; }
  const PieceForm& form(std::int64_t piece) const { return piece == plans.count - 1 ? last_ : first_; }

  // Maxima and their places from sums that lie in blocks.
  void pool(std::int64_t piece, const float* y, const PooledData& data) const {
    const OnednnPlan& maxima = *form(piece).maxima;
    const Workspace beside(queue_, maxima.y.wanted.get_size());
    for_each_block(piece, data.places, [&](const simd::BlockWindows& windows, const Block& at, std::uint8_t* places) {
      rows_->largest(windows, y + at.lies, beside.as<float>() + at.maxima, places);
    });
    copy(maxima, beside.data(), maxima_at(piece, data), true);
  }

  // The gradient of sums, in blocks; those of channels, if they are asked for, stand image by image.
  void spread(std::int64_t piece, const PooledData& data, float* dy, double* channel_sums) const {
    const PieceForm& of = form(piece);
    const OnednnPlan& heads = *of.maxima;
    const Workspace beside(queue_, heads.y.wanted.get_size());
    copy(heads, beside.data(), maxima_at(piece, data), false);
    for_each_block(piece, data.places, [&](const simd::BlockWindows& windows, const Block& at, std::uint8_t* places) {
      rows_->spread(windows, beside.as<float>() + at.maxima, places, dy + at.lies);
      if (channel_sums == nullptr)
        return;
      std::array<double, 16> sums;
      rows_->sum(dy + at.lies, windows.pixel, p_.g.out_plane(), sums.data());
      std::copy_n(sums.data(), windows.channels, channel_sums + at.channel);
    });
  }

  const ConvolutionCut cut;
  const ConvolutionPlans plans;

 private:
  // Where a block of an image of a piece begins: in the order of oneDNN, among maxima in blocks, among all channels of
  // all images.
  struct Block {
    std::int64_t lies, maxima, channel;
  };

  template <class Body>
  void for_each_block(std::int64_t piece, std::uint8_t* places, Body&& body) const {
    const PieceForm& of = form(piece);
    const PieceRange range(cut, piece);
    simd::BlockWindows windows{.pixel = of.blocks.pixel, .places = p_.g.outputs};
    for (int axis = 0; axis < 2; ++axis) {
      windows.out[axis] = p_.out[axis];
      windows.kernel[axis] = p_.kernel[axis];
      windows.stride[axis] = p_.stride[axis];
      windows.in[axis] = p_.g.out[axis];
    }
    for (std::int64_t image = 0; image < of.g.images; ++image) {
      for (std::int64_t k = 0; k < of.blocks.count; ++k) {
        const std::int64_t channel = range.channel + k * of.blocks.block, all = range.image + image;
        windows.channels = std::min(of.blocks.block, of.g.outputs - k * of.blocks.block);
        const Block at{
            image * of.blocks.image + k * of.blocks.next,
            (image * of.blocks.count + k) * p_.out_plane() * of.blocks.block,
            all * p_.g.outputs + channel};
        body(windows, at, places + all * p_.out_plane() * p_.g.outputs + channel);
      }
    }
  }
  float* maxima_at(std::int64_t piece, const PooledData& data) const {
    const PieceRange range(cut, piece);
    return static_cast<float*>(data.maxima) + (range.image * p_.g.outputs + range.channel) * p_.out_plane();
  }
  void copy(const OnednnPlan& plan, void* beside, void* ours, bool out) const {
    const Onednn& library = Onednn::of(queue_);
    dnnl::stream stream(library.engine);
    if (plan.y.same) {
      std::memcpy(out ? ours : beside, out ? beside : ours, plan.y.ours.get_size());
      return;
    }
    memory lies(plan.y.ours, library.engine, ours), blocks(plan.y.wanted, library.engine, beside);
    plan.y.copy.execute(stream, out ? blocks : lies, out ? lies : blocks);
  }

  const Queue& queue_;
  const PooledGeometry& p_;
  const simd::BlockRows* rows_ = nullptr;
  PieceForm first_, last_;
  bool usable_ = true;
};

bool takes(const PooledGeometry& p) {
  return p.g.dtype == DType::float32 && p.g.x_shape().size() > 0 && p.g.weight_shape().size() > 0 &&
         has_onednn("convolution");
}

// Whether both passes take the same pieces of the same gradient.
bool is_same(const PooledPieces& weights, const PooledPieces& data) {
  const ConvolutionCut &a = weights.cut, &b = data.cut;
  const bool alike = a.pieces.count() == 1 && b.pieces.count() == 1;
  const bool by_images = a.axis == CutAxis::images && b.axis == CutAxis::images && a.pieces.length == b.pieces.length;
  return (alike || by_images) && weights.plans.first->y.wanted == data.plans.first->y.wanted &&
         weights.plans.last->y.wanted == data.plans.last->y.wanted;
}

}  // namespace

bool pooled_forward_onednn(const Queue& queue, const PooledGeometry& p, const PooledData& data) {
  if (!takes(p))
    return false;
  const ConvolutionData& whole = data.convolution;
  const PooledPieces pieces(queue, ConvolutionPass::forward, p, whole.bias != nullptr);
  if (!pieces.usable())
    return false;
  const WeightsOfPieces weights(queue, pieces.cut, pieces.plans, whole.weight);
  for_each_piece(pieces.cut.pieces, [&](std::int64_t piece) {
    const OnednnPlan& plan = pieces.plans.of(piece);
    const ConvolutionData part = pieces.cut.data(p.g, whole, piece);
    const Workspace y(queue, plan.y.wanted.get_size());
    OnednnCall call("convolution", queue, plan);
    call.input(DNNL_ARG_SRC, plan.x, part.x);
    weights.pass(call, piece, part.weight);
    if (part.bias != nullptr)
      call.plain(DNNL_ARG_BIAS, plan.bias, const_cast<void*>(part.bias));
    call.plain(DNNL_ARG_DST, plan.y.wanted, y.data());
    call.run();
    pieces.pool(piece, y.as<float>(), data);
  });
  return true;
}

bool pooled_backward_onednn(const Queue& queue, const PooledGeometry& p, const PooledData& data) {
  if (!takes(p))
    return false;
  const PooledPieces pieces(queue, ConvolutionPass::backward_weights, p, false);
  std::optional<PooledPieces> of_x;
  std::optional<WeightsOfPieces> weights;
  if (data.of_x.x != nullptr) {
    of_x.emplace(queue, ConvolutionPass::backward_data, p, false);
    if (!of_x->usable() || !is_same(pieces, *of_x))
      return false;
    weights.emplace(queue, of_x->cut, of_x->plans, data.of_x.weight);
  }
  if (!pieces.usable())
    return false;
  ConvolutionData whole = data.convolution;
  float* const bias = static_cast<float*>(std::exchange(whole.bias_grad, nullptr));
  std::vector<double> sums(bias == nullptr ? 0 : static_cast<std::size_t>(p.g.images * p.g.outputs));
  add_weights(queue, pieces.cut, p.g, whole, [&](std::int64_t piece, const ConvolutionData& part) {
    const OnednnPlan& plan = pieces.plans.of(piece);
    const Workspace dy(queue, plan.y.wanted.get_size());
    pieces.spread(piece, data, dy.as<float>(), bias == nullptr ? nullptr : sums.data());
    OnednnCall call("convolution", queue, plan);
    call.input(DNNL_ARG_SRC, plan.x, part.x);
    call.plain(DNNL_ARG_DIFF_DST, plan.y.wanted, dy.data());
    call.output(DNNL_ARG_DIFF_WEIGHTS, plan.weight, part.weight);
    call.run();
    if (!of_x)
      return;
    const OnednnPlan& back = of_x->plans.of(piece);
    const ConvolutionData to = of_x->cut.data(p.g, data.of_x, piece);
    OnednnCall data_call("convolution", queue, back);
    data_call.plain(DNNL_ARG_DIFF_DST, back.y.wanted, dy.data());
    weights->pass(data_call, piece, to.weight);
    data_call.output(DNNL_ARG_DIFF_SRC, back.x, to.x);
    data_call.run();
  });
  if (bias != nullptr)
    channel_totals_cpu(p.g.images, p.g.outputs, sums.data(), bias);
  return true;
}

#else
bool pooled_forward_onednn(const Queue&, const PooledGeometry&, const PooledData&) {
  return false;
}
bool pooled_backward_onednn(const Queue&, const PooledGeometry&, const PooledData&) {
  return false;
}
#endif

}  // namespace sluice::detail
