#include <array>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/model_zoo/parts.h>
#include <sluice/gluon/model_zoo/vision.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/concurrent.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/pool.h>

namespace sluice::gluon::model_zoo::vision {

namespace {

/// Channels of the first convolution, what each layer adds, and layers in each block.
struct Settings {
  std::int64_t first, growth;
  std::array<int, 4> blocks;
};
Settings settings_of(int layers) {
  switch (layers) {
    case 121:
      return {64, 32, {6, 12, 24, 16}};
    case 161:
      return {96, 48, {6, 12, 36, 24}};
    case 169:
      return {64, 32, {6, 12, 32, 32}};
    case 201:
      return {64, 32, {6, 12, 48, 32}};
    default:
      throw ValueError(message("densenet: there are 121, 161, 169 and 201 layers, not ", layers));
  }
}

/// Norm and activation come before convolutions here.
void add_norm_conv(nn::Sequential& net, std::int64_t channels, std::int64_t kernel) {
  net.add(nn::BatchNorm(), nn::Activation("relu"));
  net.add(nn::Conv2D(channels, kernel, {.padding = kernel / 2, .use_bias = false}));
}

}  // namespace

Classifier densenet(int layers, const ModelOptions& options) {
  const Settings settings = settings_of(layers);
  nn::Sequential features;
  add_conv_norm(features, {.channels = settings.first, .kernel = 7, .strides = 2, .padding = 3});
  features.add(nn::MaxPool2D(3, {.strides = 2, .padding = 1}));
  std::int64_t channels = settings.first;
  for (std::size_t block = 0; block < settings.blocks.size(); ++block) {
    nn::Sequential dense;
    for (int i = 0; i < settings.blocks[block]; ++i) {
      nn::Sequential more;
      add_norm_conv(more, 4 * settings.growth, 1);
      add_norm_conv(more, settings.growth, 3);
      nn::Concurrent both(1);
      both.add(nn::Identity(), std::move(more));
      dense.add(std::move(both));
    }
    features.add(std::move(dense));
    channels += settings.blocks[block] * settings.growth;
    if (block + 1 < settings.blocks.size()) {
      channels /= 2;
      add_norm_conv(features, channels, 1);
      features.add(nn::AvgPool2D(2));
    }
  }
  features.add(nn::BatchNorm(), nn::Activation("relu"), nn::AvgPool2D(7), nn::Flatten());
  return {std::move(features), shared(nn::Dense(options.classes))};
}

}  // namespace sluice::gluon::model_zoo::vision
