// MobileNet, versions 1 and 2, the latter as MXNet and as torchvision have it.
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

namespace sluice::gluon::model_zoo::vision {

namespace {

/// So many channels; throws ValueError for a multiplier that leaves none.
std::int64_t scaled(std::int64_t channels, double multiplier, const char* model) {
  const double product = static_cast<double>(channels) * multiplier;
  require(std::isfinite(product) && product >= 1 && product < 1e6, [&] {
    return message(model, ": a multiplier of ", multiplier, " makes ", channels, " channels ", product);
  });
  return static_cast<std::int64_t>(product);
}

/// Channels behind it, how much wider it is inside, and strides.
struct Inverted {
  std::int64_t channels;
  int expansion;
  int strides;
  int times;
};
constexpr std::array<Inverted, 7> k_inverted = {
    {{16, 1, 1, 1}, {24, 6, 2, 2}, {32, 6, 2, 3}, {64, 6, 2, 4}, {96, 6, 1, 3}, {160, 6, 2, 3}, {320, 6, 1, 1}}};

/// MXNet's begins with a convolution, though it makes nothing wider, where torchvision's has none.
std::shared_ptr<Block> inverted_residual(
    std::int64_t before, std::int64_t channels, std::int64_t expansion, std::int64_t strides, bool always_widens) {
  nn::Sequential body;
  const std::int64_t wide = before * expansion;
  if (always_widens || expansion > 1)
    add_conv_norm(body, {.channels = wide, .activation = "relu6"});
  add_conv_norm(
      body, {.channels = wide, .kernel = 3, .strides = strides, .padding = 1, .groups = wide, .activation = "relu6"});
  add_conv_norm(body, {.channels = channels, .activation = ""});
  if (strides == 1 && before == channels)
    return shared(nn::Residual(shared(std::move(body)), {}, false));
  return shared(std::move(body));
}

template <class Wide>
nn::Sequential version_2(const Wide& wide, std::int64_t last, bool always_widens) {
  nn::Sequential features;
  add_conv_norm(features, {.channels = wide(32), .kernel = 3, .strides = 2, .padding = 1, .activation = "relu6"});
  std::int64_t before = wide(32);
  for (const auto& [channels, expansion, strides, times] : k_inverted) {
    for (int i = 0; i < times; ++i) {
      features.add(inverted_residual(before, wide(channels), expansion, i == 0 ? strides : 1, always_widens));
      before = wide(channels);
    }
  }
  add_conv_norm(features, {.channels = last, .activation = "relu6"});
  features.add(nn::GlobalAvgPool2D());
  return features;
}

}  // namespace

Classifier mobilenet(double multiplier, const ModelOptions& options) {
  constexpr std::array<std::int64_t, 14> channels = {
      32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024};
  constexpr std::array<std::int64_t, 13> strides = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
  const auto wide = [&](std::size_t i) { return scaled(channels[i], multiplier, "mobilenet"); };
  nn::Sequential features;
  add_conv_norm(features, {.channels = wide(0), .kernel = 3, .strides = 2, .padding = 1});
  for (std::size_t i = 0; i < strides.size(); ++i) {
    add_conv_norm(features, {.channels = wide(i), .kernel = 3, .strides = strides[i], .padding = 1, .groups = wide(i)});
    add_conv_norm(features, {.channels = wide(i + 1)});
  }
  features.add(nn::GlobalAvgPool2D(), nn::Flatten());
  return {std::move(features), shared(nn::Dense(options.classes))};
}

Classifier mobilenet_v2(double multiplier, const ModelOptions& options) {
  const auto wide = [&](std::int64_t channels) { return scaled(channels, multiplier, "mobilenet_v2"); };
  nn::Sequential features = version_2(wide, multiplier > 1 ? wide(1280) : 1280, true);
  nn::Sequential output;
  output.add(nn::Conv2D(options.classes, 1, {.use_bias = false}), nn::Flatten());
  return {std::move(features), shared(std::move(output))};
}

Classifier mobilenet_v2b(double multiplier, const ModelOptions& options) {
  scaled(1280, multiplier, "mobilenet_v2b");
  const auto wide = [&](std::int64_t channels) { return in_eights(static_cast<double>(channels) * multiplier); };
  nn::Sequential features = version_2(wide, in_eights(1280 * std::max(1.0, multiplier)), false);
  features.add(nn::Flatten(), nn::Dropout(0.2));
  return {std::move(features), shared(nn::Dense(options.classes))};
}

}  // namespace sluice::gluon::model_zoo::vision
