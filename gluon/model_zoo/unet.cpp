#include <array>
#include <string>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/model_zoo/parts.h>
#include <sluice/gluon/model_zoo/segmentation.h>
#include <sluice/gluon/nn/conv_transpose.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/pool/pool.h>

namespace sluice::gluon::model_zoo::segmentation {

namespace {

/// Two convolutions of three by three, each followed by what the options say.
nn::Sequential twice(std::int64_t channels, bool batch_norm) {
  nn::Sequential net;
  for (int i = 0; i < 2; ++i) {
    if (batch_norm)
      add_conv_norm(net, {.channels = channels, .kernel = 3, .padding = 1});
    else
      net.add(nn::Conv2D(channels, 3, {.padding = 1, .activation = "relu"}));
  }
  return net;
}

}  // namespace

UNet::UNet(const UNetOptions& options) {
  constexpr int k_most_levels = 8;
  constexpr std::int64_t k_most_channels = std::int64_t{1} << 20;
  const bool fits = options.channels >= 1 && options.channels <= k_most_channels;
  require(fits && options.classes >= 1 && options.levels >= 1 && options.levels <= k_most_levels, [&] {
    return message(
        "UNet: of ", options.classes, " classes, ", options.channels, " channels and ", options.levels, " levels");
  });
  for (int level = 0; level < options.levels; ++level)
    down_.push_back(
        child("down" + std::to_string(level), shared(twice(options.channels << level, options.batch_norm))));
  bottom_ = child("bottom", shared(twice(options.channels << options.levels, options.batch_norm)));
  for (int i = 0; i < options.levels; ++i) {
    const std::int64_t channels = options.channels << (options.levels - 1 - i);
    up_.push_back(child("up" + std::to_string(i), shared(nn::Conv2DTranspose(channels, 2, {.strides = 2}))));
    level_.push_back(child("level" + std::to_string(i), shared(twice(channels, options.batch_norm))));
  }
  output_ = child("output", shared(nn::Conv2D(options.classes, 1)));
}

NDArray UNet::forward(const NDArray& x) const {
  const OriginScope here(call_site());
  const Shape size = image_size(x, "UNet");
  const std::int64_t step = std::int64_t{1} << down_.size();
  require<ShapeError>(size[0] % step == 0 && size[1] % step == 0, [&] {
    return message("UNet: ", step, " does not divide height and width of images ", size);
  });
  NDArray y = x;
  std::vector<NDArray> beside;
  for (const Child<>& down : down_) {
    beside.push_back(down(y));
    y = max_pool2d(beside.back(), {.kernel = {2, 2}, .stride = {2, 2}}, call_site());
  }
  y = bottom_(y);
  for (std::size_t i = 0; i < up_.size(); ++i) {
    y = level_[i](concat({beside.back(), up_[i](y)}, 1));
    beside.pop_back();
  }
  return output_(y);
}

}  // namespace sluice::gluon::model_zoo::segmentation
