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

namespace sluice::gluon::model_zoo {

namespace vision {

namespace {

enum class Kind : std::uint8_t { v1, v1b, v2 };

/// Blocks in the four stages, and whether they are bottlenecks of three convolutions.
struct Depths {
  std::array<int, 4> blocks;
  bool bottleneck;
};

/// What bottlenecks differ in: groups of the middle convolution, and channels of each where there are 64 behind it.
struct Width {
  std::int64_t groups = 1, each = 64;
};

struct Steps {
  std::int64_t strides = 1, dilation = 1;
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

std::shared_ptr<Block> block_v1(
    Kind kind, bool bottleneck, std::int64_t channels, const Steps& at, bool changes, const Width& width = {}) {
  nn::Sequential body;
  const std::int64_t strides = at.strides;
  if (bottleneck) {
    const bool first = kind == Kind::v1;  // which convolution has the strides; MXNet's have biases
    const std::int64_t narrow = channels / 4 * width.each / 64 * width.groups;
    add_conv_norm(body, {.channels = narrow, .strides = first ? strides : 1, .use_bias = first});
    add_conv_norm(
        body,
        {.channels = narrow,
         .kernel = 3,
         .strides = first ? 1 : strides,
         .padding = at.dilation,
         .groups = width.groups,
         .dilation = at.dilation});
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

void add_stem(nn::Sequential& features) {
  add_conv_norm(features, {.channels = 64, .kernel = 7, .strides = 2, .padding = 3});
  features.add(nn::MaxPool2D(3, {.strides = 2, .padding = 1}));
}

Classifier make(Kind kind, int layers, const ModelOptions& options, const Width& width = {}) {
  const auto [blocks, bottleneck] = depths_of(layers);
  nn::Sequential features;
  if (kind == Kind::v2)
    features.add(nn::BatchNorm({.center = false, .scale = false}));
  add_stem(features);
  std::int64_t before = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::int64_t channels = (bottleneck ? 256 : 64) << stage;
    nn::Sequential all;
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::int64_t strides = i == 0 && stage > 0 ? 2 : 1;
      const bool changes = i == 0 && channels != before;
      all.add(
          kind == Kind::v2 ? block_v2(bottleneck, channels, strides, changes)
                           : block_v1(kind, bottleneck, channels, {strides}, changes, width));
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

Classifier resnext(int layers, std::int64_t cardinality, std::int64_t width, const ModelOptions& options) {
  const bool fits = cardinality >= 1 && cardinality <= 1024 && width >= 1 && width <= 1024;
  require(depths_of(layers).bottleneck && fits, [&] {
    return message(
        "resnext: of 50, 101 or 152 layers, 1 to 1024 groups of 1 to 1024 channels, not ",
        layers,
        ", ",
        cardinality,
        " and ",
        width);
  });
  return make(Kind::v1b, layers, options, {cardinality, width});
}

Classifier wide_resnet(int layers, std::int64_t factor, const ModelOptions& options) {
  require(depths_of(layers).bottleneck && factor >= 1 && factor <= 64, [&] {
    return message("wide_resnet: of 50, 101 or 152 layers, 1 to 64 times as wide, not ", layers, " and ", factor);
  });
  return make(Kind::v1b, layers, options, {1, 64 * factor});
}

}  // namespace vision

nn::Sequential dilated_resnet(int layers, int first, int last) {
  using namespace vision;
  const auto [blocks, bottleneck] = depths_of(layers);
  require(bottleneck, [&] { return message("dilated ResNets have 50, 101 or 152 layers, not ", layers); });
  nn::Sequential net;
  if (first == 0)
    add_stem(net);
  for (int stage = first; stage <= last; ++stage) {
    const std::int64_t channels = std::int64_t{256} << stage;
    const std::int64_t dilation = stage < 2 ? 1 : stage == 2 ? 2 : 4;
    nn::Sequential all;
    for (int i = 0; i < blocks[static_cast<std::size_t>(stage)]; ++i) {
      // The first block still sees what it sees with strides.
      const Steps steps{i == 0 && stage == 1 ? 2 : 1, i == 0 && dilation > 1 ? dilation / 2 : dilation};
      all.add(block_v1(Kind::v1b, bottleneck, channels, steps, i == 0));
    }
    net.add(std::move(all));
  }
  return net;
}

}  // namespace sluice::gluon::model_zoo
