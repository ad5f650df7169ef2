#include <array>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/model_zoo/parts.h>
#include <sluice/gluon/model_zoo/vision.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/concurrent.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/more_pools.h>
#include <sluice/gluon/nn/pool.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::model_zoo::vision {

namespace {

enum class Kind : std::uint8_t { v1, v1b, v2 };

/// Blocks in the four stages, and whether they are bottlenecks of three convolutions.
struct Depths {
  std::array<int, 4> blocks;
  bool bottleneck;
};
Depths depths_of(int layers) {
  switch (layers) {
    case 18:
      return {{2, 2, 2, 2}, false};
    case 34:
      return {{3, 4, 6, 3}, false};
    case 50:
      return {{3, 4, 6, 3}, true};
    case 101:
      return {{3, 4, 23, 3}, true};
    case 152:
      return {{3, 8, 36, 3}, true};
    default:
      throw ValueError(message("resnet: there are 18, 34, 50, 101 and 152 layers, not ", layers));
  }
}

/// body(a) + x with a = relu(batch norm of x); `shortcut` takes a where channels or sizes change.
class PreActivated : public Block {
 public:
  PreActivated(nn::Sequential body, std::shared_ptr<Block> shortcut)
      : norm_(child("norm", nn::BatchNorm())),
        body_(child("body", std::move(body))),
        has_shortcut_(shortcut != nullptr) {
    if (has_shortcut_)
      shortcut_ = child("shortcut", std::move(shortcut));
  }

 protected:
  NDArray forward(const NDArray& x) const override {
    const NDArray activated = relu(norm_(x), call_site());
    return add(body_(activated), has_shortcut_ ? shortcut_(activated) : x, call_site());
  }

 private:
  Child<nn::BatchNorm> norm_;
  Child<nn::Sequential> body_;
  Child<> shortcut_;
  bool has_shortcut_;
};

/// Behind it neither norm nor activation: version 2's last convolution.
void add_conv(nn::Sequential& net, std::int64_t channels, std::int64_t kernel, std::int64_t strides = 1) {
  net.add(nn::Conv2D(channels, kernel, {.strides = strides, .padding = kernel / 2, .use_bias = false}));
}

std::shared_ptr<Block> block_v1(Kind kind, bool bottleneck, std::int64_t channels, std::int64_t strides, bool changes) {
  nn::Sequential body;
  if (bottleneck) {
    const bool first = kind == Kind::v1;  // which convolution has the strides; MXNet's have biases
    const std::int64_t narrow = channels / 4;
    add_conv_norm(body, {.channels = narrow, .strides = first ? strides : 1, .use_bias = first});
    add_conv_norm(body, {.channels = narrow, .kernel = 3, .strides = first ? 1 : strides, .padding = 1});
    add_conv_norm(body, {.channels = channels, .activation = "", .use_bias = first});
  } else {
    add_conv_norm(body, {.channels = channels, .kernel = 3, .strides = strides, .padding = 1});
    add_conv_norm(body, {.channels = channels, .kernel = 3, .padding = 1, .activation = ""});
  }
  std::shared_ptr<Block> shortcut;
  if (changes) {
    nn::Sequential other;
    add_conv_norm(other, {.channels = channels, .strides = strides, .activation = ""});
    shortcut = shared(std::move(other));
  }
  return shared(nn::Residual(shared(std::move(body)), std::move(shortcut)));
}

std::shared_ptr<Block> block_v2(bool bottleneck, std::int64_t channels, std::int64_t strides, bool changes) {
  nn::Sequential body;
  if (bottleneck) {
    add_conv_norm(body, {.channels = channels / 4});
    add_conv_norm(body, {.channels = channels / 4, .kernel = 3, .strides = strides, .padding = 1});
    add_conv(body, channels, 1);
  } else {
    add_conv_norm(body, {.channels = channels, .kernel = 3, .strides = strides, .padding = 1});
    add_conv(body, channels, 3);
  }
  std::shared_ptr<Block> shortcut;
  if (changes)
    shortcut = shared(nn::Conv2D(channels, 1, {.strides = strides, .use_bias = false}));
  return shared(PreActivated(std::move(body), std::move(shortcut)));
}

Classifier make(Kind kind, int layers, const ModelOptions& options) {
  const auto [blocks, bottleneck] = depths_of(layers);
  nn::Sequential features;
  if (kind == Kind::v2)
    features.add(nn::BatchNorm({.center = false, .scale = false}));
  add_conv_norm(features, {.channels = 64, .kernel = 7, .strides = 2, .padding = 3});
  features.add(nn::MaxPool2D(3, {.strides = 2, .padding = 1}));
  std::int64_t before = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::int64_t channels = (bottleneck ? 256 : 64) << stage;
    nn::Sequential all;
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::int64_t strides = i == 0 && stage > 0 ? 2 : 1;
      const bool changes = i == 0 && channels != before;
      all.add(
          kind == Kind::v2 ? block_v2(bottleneck, channels, strides, changes)
                           : block_v1(kind, bottleneck, channels, strides, changes));
    }
    before = channels;
    features.add(std::move(all));
  }
  if (kind == Kind::v2)
    features.add(nn::BatchNorm(), nn::Activation("relu"));
  features.add(nn::GlobalAvgPool2D(), nn::Flatten());
  return {std::move(features), shared(nn::Dense(options.classes))};
}

}  // namespace

Classifier resnet(int version, int layers, const ModelOptions& options) {
  require(version == 1 || version == 2, [&] { return message("resnet: there are versions 1 and 2, not ", version); });
  return make(version == 1 ? Kind::v1 : Kind::v2, layers, options);
}

Classifier resnet_v1b(int layers, const ModelOptions& options) {
  return make(Kind::v1b, layers, options);
}

}  // namespace sluice::gluon::model_zoo::vision
