// LeNet, AlexNet, VGG and SqueezeNet.
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

void add_conv_relu(nn::Sequential& net, std::int64_t channels, std::int64_t kernel, nn::Conv2DOptions options = {}) {
  options.activation = "relu";
  net.add(nn::Conv2D(channels, kernel, std::move(options)));
}

/// Two wide layers, each followed by dropout.
void add_wide_layers(nn::Sequential& net) {
  net.add(nn::Flatten());
  for (int i = 0; i < 2; ++i)
    net.add(nn::Dense(4096, {.activation = "relu"}), nn::Dropout(0.5));
}

void add_fire(nn::Sequential& net, std::int64_t squeezed, std::int64_t expanded) {
  add_conv_relu(net, squeezed, 1);
  nn::Concurrent both(1);
  both.add(nn::Conv2D(expanded, 1, {.activation = "relu"}));
  both.add(nn::Conv2D(expanded, 3, {.padding = 1, .activation = "relu"}));
  net.add(std::move(both));
}

}  // namespace

Classifier lenet(const ModelOptions& options) {
  nn::Sequential features;
  features.add(nn::Conv2D(6, 5, {.padding = 2, .activation = "tanh"}), nn::AvgPool2D(2));
  features.add(nn::Conv2D(16, 5, {.activation = "tanh"}), nn::AvgPool2D(2), nn::Flatten());
  for (const std::int64_t units : {120, 84})
    features.add(nn::Dense(units, {.activation = "tanh"}));
  return {std::move(features), shared(nn::Dense(options.classes))};
}

Classifier alexnet(const ModelOptions& options) {
  nn::Sequential features;
  add_conv_relu(features, 64, 11, {.strides = 4, .padding = 2});
  features.add(nn::MaxPool2D(3, {.strides = 2}));
  add_conv_relu(features, 192, 5, {.padding = 2});
  features.add(nn::MaxPool2D(3, {.strides = 2}));
  add_conv_relu(features, 384, 3, {.padding = 1});
  add_conv_relu(features, 256, 3, {.padding = 1});
  add_conv_relu(features, 256, 3, {.padding = 1});
  features.add(nn::MaxPool2D(3, {.strides = 2}));
  add_wide_layers(features);
  return {std::move(features), shared(nn::Dense(options.classes))};
}

Classifier vgg(int layers, bool batch_norm, const ModelOptions& options) {
  constexpr std::array<std::int64_t, 5> channels{64, 128, 256, 512, 512};
  std::array<int, 5> depths{};
  switch (layers) {
    case 11:
      depths = {1, 1, 2, 2, 2};
      break;
    case 13:
      depths = {2, 2, 2, 2, 2};
      break;
    case 16:
      depths = {2, 2, 3, 3, 3};
      break;
    case 19:
      depths = {2, 2, 4, 4, 4};
      break;
    default:
      throw ValueError(message("vgg: there are 11, 13, 16 and 19 layers, not ", layers));
  }
  nn::Sequential features;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    for (int i = 0; i < depths[stage]; ++i) {
      if (batch_norm)
        add_conv_norm(features, {.channels = channels[stage], .kernel = 3, .padding = 1, .use_bias = true});
      else
        add_conv_relu(features, channels[stage], 3, {.padding = 1});
    }
    features.add(nn::MaxPool2D(2));
  }
  add_wide_layers(features);
  return {std::move(features), shared(nn::Dense(options.classes))};
}

Classifier squeezenet(std::string_view version, const ModelOptions& options) {
  require(version == "1.0" || version == "1.1", [&] {
    return message("squeezenet: there are versions \"1.0\" and \"1.1\", not \"", version, "\"");
  });
  const bool first = version == "1.0";
  nn::Sequential features;
  const auto pool = [&] { features.add(nn::MaxPool2D(3, {.strides = 2, .ceil_mode = true})); };
  add_conv_relu(features, first ? 96 : 64, first ? 7 : 3, {.strides = 2});
  pool();
  add_fire(features, 16, 64);
  add_fire(features, 16, 64);
  if (!first)
    pool();
  add_fire(features, 32, 128);
  if (first)
    pool();
  add_fire(features, 32, 128);
  if (!first)
    pool();
  add_fire(features, 48, 192);
  add_fire(features, 48, 192);
  add_fire(features, 64, 256);
  if (first)
    pool();
  add_fire(features, 64, 256);
  features.add(nn::Dropout(0.5));
  nn::Sequential output;
  add_conv_relu(output, options.classes, 1);
  output.add(nn::AvgPool2D(13), nn::Flatten());
  return {std::move(features), shared(std::move(output))};
}

}  // namespace sluice::gluon::model_zoo::vision
