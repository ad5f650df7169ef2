// MobileNet, version 3.
#include <cmath>
#include <span>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/model_zoo/parts.h>
#include <sluice/gluon/model_zoo/vision.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/concurrent.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/more_pools.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::model_zoo {

namespace {

/// Kernel, channels inside and behind, whether channels are scaled (SqueezeExcitation), which activation, strides.
struct Inverted {
  std::int64_t kernel, wide, channels;
  bool squeezes, is_hard_swish;
  std::int64_t strides;
};
constexpr Inverted k_large[] = {
    {3, 16, 16, false, false, 1},
    {3, 64, 24, false, false, 2},
    {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},
    {5, 120, 40, true, false, 1},
    {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2},
    {3, 200, 80, false, true, 1},
    {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1},
    {3, 480, 112, true, true, 1},
    {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2},
    {5, 960, 160, true, true, 1},
    {5, 960, 160, true, true, 1}};
constexpr Inverted k_small[] = {
    {3, 16, 16, true, false, 2},
    {3, 72, 24, false, false, 2},
    {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},
    {5, 240, 40, true, true, 1},
    {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1},
    {5, 144, 48, true, true, 1},
    {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1},
    {5, 576, 96, true, true, 1}};
constexpr int k_dilated_from = 12;  // blocks of the large one, where backbones of segmentation have no strides

ConvNorm conv(std::int64_t channels, const char* activation) {
  return {.channels = channels, .activation = activation, .epsilon = 1e-3, .momentum = 0.99};
}

NDArray gate(const NDArray& x, SourceLocation site) {
  return hard_sigmoid(x, 1 / 6.0, 0.5, site);
}

std::shared_ptr<Block> inverted(std::int64_t before, const Inverted& what, double multiplier, bool is_dilated) {
  const auto wider = [&](std::int64_t channels) { return in_eights(static_cast<double>(channels) * multiplier); };
  const char* const activation = what.is_hard_swish ? "hard_swish" : "relu";
  const std::int64_t wide = wider(what.wide), channels = wider(what.channels), dilation = is_dilated ? 2 : 1;
  nn::Sequential body;
  if (wide != before)
    add_conv_norm(body, conv(wide, activation));
  ConvNorm each = conv(wide, activation);
  each.kernel = what.kernel;
  each.strides = is_dilated ? 1 : what.strides;
  each.padding = what.kernel / 2 * dilation;
  each.dilation = dilation;
  each.groups = wide;
  add_conv_norm(body, each);
  if (what.squeezes)
    body.add(SqueezeExcitation(wide, in_eights(static_cast<double>(wide / 4)), "relu", gate));
  add_conv_norm(body, conv(channels, ""));
  if (what.strides == 1 && before == channels)
    return shared(nn::Residual(shared(std::move(body)), {}, false));
  return shared(std::move(body));
}

/// Layers `first` to `last`: a convolution, the blocks, and a convolution.
nn::Sequential layers_of(
    std::span<const Inverted> blocks, double multiplier, bool is_dilated, std::size_t first, std::size_t last) {
  const auto wider = [&](std::int64_t channels) { return in_eights(static_cast<double>(channels) * multiplier); };
  nn::Sequential net;
  if (first == 0) {
    ConvNorm stem = conv(wider(16), "hard_swish");
    stem.kernel = 3;
    stem.strides = 2;
    stem.padding = 1;
    add_conv_norm(net, stem);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i + 1 < first || i + 1 > last)
      continue;
    const std::int64_t before = wider(i == 0 ? 16 : blocks[i - 1].channels);
    net.add(inverted(before, blocks[i], multiplier, is_dilated && i >= k_dilated_from));
  }
  if (last > blocks.size())
    add_conv_norm(net, conv(6 * wider(blocks.back().channels), "hard_swish"));
  return net;
}

vision::Classifier made(
    const char* model,
    std::span<const Inverted> blocks,
    std::int64_t hidden,
    double multiplier,
    const vision::ModelOptions& options) {
  require(std::isfinite(multiplier) && multiplier > 0 && multiplier <= 1000, [&] {
    return message(model, ": a multiplier of ", multiplier, " is not within (0, 1000]");
  });
  nn::Sequential features = layers_of(blocks, multiplier, false, 0, blocks.size() + 1);
  features.add(nn::GlobalAvgPool2D(), nn::Flatten());
  const std::int64_t wide = in_eights(static_cast<double>(hidden) * multiplier);
  features.add(nn::Dense(wide, {.activation = "hard_swish"}), nn::Dropout(0.2));
  return {std::move(features), shared(nn::Dense(options.classes))};
}

}  // namespace

nn::Sequential dilated_mobilenet_v3(int first, int last) {
  return layers_of(k_large, 1, true, static_cast<std::size_t>(first), static_cast<std::size_t>(last));
}

namespace vision {

Classifier mobilenet_v3_large(double multiplier, const ModelOptions& options) {
  return made("mobilenet_v3_large", k_large, 1280, multiplier, options);
}

Classifier mobilenet_v3_small(double multiplier, const ModelOptions& options) {
  return made("mobilenet_v3_small", k_small, 1024, multiplier, options);
}

}  // namespace vision

}  // namespace sluice::gluon::model_zoo
