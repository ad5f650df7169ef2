#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/model_zoo/parts.h>
#include <sluice/gluon/model_zoo/vision.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/concurrent.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/more_pools.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::model_zoo::vision {

namespace {

/// Of B0; the others have more layers and channels.
struct Stage {
  std::int64_t expansion, kernel, strides, channels;
  int layers;
};
constexpr std::array<Stage, 7> k_stages = {
    {{1, 3, 1, 16, 1},
     {6, 3, 2, 24, 2},
     {6, 5, 2, 40, 2},
     {6, 3, 2, 80, 3},
     {6, 5, 1, 112, 3},
     {6, 5, 2, 192, 4},
     {6, 3, 1, 320, 1}}};

/// How much wider and deeper than B0, and dropout before the output.
struct Scale {
  double width, depth, dropout;
};
constexpr std::array<Scale, 8> k_scales = {
    {{1, 1, 0.2},
     {1, 1.1, 0.2},
     {1.1, 1.2, 0.3},
     {1.2, 1.4, 0.3},
     {1.4, 1.8, 0.4},
     {1.6, 2.2, 0.4},
     {1.8, 2.6, 0.5},
     {2, 3.1, 0.5}}};
constexpr double k_drop_path = 0.2;  // of the last block; of those before it in proportion

struct Mobile {
  std::int64_t before, channels;
  Stage stage;
  std::int64_t strides;
  double drop_path;
};

/// B5 to B7 have other norms.
ConvNorm conv(std::int64_t channels, const char* activation, bool is_large) {
  return {
      .channels = channels,
      .activation = activation,
      .epsilon = is_large ? 1e-3 : 1e-5,
      .momentum = is_large ? 0.99 : 0.9};
}

std::shared_ptr<Block> mobile_block(const Mobile& what, bool is_large) {
  nn::Sequential body;
  const std::int64_t wide = in_eights(static_cast<double>(what.before * what.stage.expansion));
  if (wide != what.before)
    add_conv_norm(body, conv(wide, "silu", is_large));
  ConvNorm each = conv(wide, "silu", is_large);
  each.kernel = what.stage.kernel;
  each.strides = what.strides;
  each.padding = what.stage.kernel / 2;
  each.groups = wide;
  add_conv_norm(body, each);
  body.add(SqueezeExcitation(wide, std::max<std::int64_t>(1, what.before / 4), "silu", sigmoid));
  add_conv_norm(body, conv(what.channels, "", is_large));
  if (what.strides != 1 || what.before != what.channels)
    return shared(std::move(body));
  body.add(nn::DropPath(what.drop_path));
  return shared(nn::Residual(shared(std::move(body)), {}, false));
}

}  // namespace

Classifier efficientnet(int b, const ModelOptions& options) {
  require(b >= 0 && b <= 7, [&] { return message("efficientnet: there are 0 to 7, not ", b); });
  const Scale& scale = k_scales[static_cast<std::size_t>(b)];
  const bool is_large = b >= 5;
  const auto wider = [&](std::int64_t channels) { return in_eights(static_cast<double>(channels) * scale.width); };
  const auto deeper = [&](int layers) { return static_cast<int>(std::ceil(layers * scale.depth)); };
  int blocks = 0, number = 0;
  for (const Stage& stage : k_stages)
    blocks += deeper(stage.layers);

  nn::Sequential features;
  ConvNorm stem = conv(wider(32), "silu", is_large);
  stem.kernel = 3;
  stem.strides = 2;
  stem.padding = 1;
  add_conv_norm(features, stem);
  std::int64_t before = wider(32);
  for (const Stage& stage : k_stages) {
    nn::Sequential all;
    for (int i = 0; i < deeper(stage.layers); ++i, ++number) {
      const double drop_path = k_drop_path * number / blocks;
      all.add(mobile_block({before, wider(stage.channels), stage, i == 0 ? stage.strides : 1, drop_path}, is_large));
      before = wider(stage.channels);
    }
    features.add(std::move(all));
  }
  add_conv_norm(features, conv(4 * before, "silu", is_large));
  features.add(nn::GlobalAvgPool2D(), nn::Flatten(), nn::Dropout(scale.dropout));
  return {std::move(features), shared(nn::Dense(options.classes))};
}

}  // namespace sluice::gluon::model_zoo::vision
