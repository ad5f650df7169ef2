// FCN and DeepLabV3.
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/model_zoo/parts.h>
#include <sluice/gluon/model_zoo/segmentation.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/concurrent.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/resize/resize.h>

namespace sluice::gluon::model_zoo::segmentation {

namespace {

/// What the whole image looks like, at each of its pixels: the last of the pyramid's branches.
class Overall : public Block {
 public:
  explicit Overall(std::int64_t channels) : body_(child("body", made(channels))) {}

 protected:
  NDArray forward(const NDArray& x) const override {
    const OriginScope here(call_site());
    const Shape size = height_and_width(x);
    return body_(mean(x, {2, 3}, true)).broadcast_to({-1, -1, size[0], size[1]});
  }

 private:
  static nn::Sequential made(std::int64_t channels) {
    nn::Sequential net;
    add_conv_norm(net, {.channels = channels});
    return net;
  }
  Child<nn::Sequential> body_;
};

void check(const char* model, const SegmentationOptions& options) {
  require(options.classes >= 1, [&] { return message(model, ": ", options.classes, " classes; there must be one"); });
}

/// torchvision's FCNHead, of a quarter of the channels it sees.
nn::Sequential simple_head(std::int64_t channels, std::int64_t classes) {
  nn::Sequential net;
  add_conv_norm(net, {.channels = channels, .kernel = 3, .padding = 1});
  net.add(nn::Dropout(0.1), nn::Conv2D(classes, 1));
  return net;
}

/// torchvision's DeepLabHead: atrous spatial pyramid pooling, two convolutions.
nn::Sequential pyramid_head(std::int64_t classes) {
  constexpr std::int64_t k_channels = 256;
  nn::Concurrent pyramid(1);
  nn::Sequential point;
  add_conv_norm(point, {.channels = k_channels});
  pyramid.add(std::move(point));
  for (const std::int64_t rate : {12, 24, 36}) {
    nn::Sequential atrous;
    add_conv_norm(atrous, {.channels = k_channels, .kernel = 3, .padding = rate, .dilation = rate});
    pyramid.add(std::move(atrous));
  }
  pyramid.add(Overall(k_channels));
  nn::Sequential net;
  net.add(std::move(pyramid));
  add_conv_norm(net, {.channels = k_channels});
  net.add(nn::Dropout(0.5));
  add_conv_norm(net, {.channels = k_channels, .kernel = 3, .padding = 1});
  net.add(nn::Conv2D(classes, 1));
  return net;
}

std::shared_ptr<Block> aux_head(std::int64_t channels, const SegmentationOptions& options) {
  return options.aux ? shared(simple_head(channels, options.classes)) : nullptr;
}

}  // namespace

SegmentationModel::SegmentationModel(
    nn::Sequential backbone, nn::Sequential top, nn::Sequential head, std::shared_ptr<Block> aux)
    : backbone_(child("backbone", std::move(backbone))),
      top_(child("top", std::move(top))),
      head_(child("head", std::move(head))),
      has_aux_(aux != nullptr) {
  if (has_aux_)
    aux_ = child("aux", std::move(aux));
}

Arrays SegmentationModel::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1);
  const OriginScope here(call_site());
  const Shape size = image_size(inputs[0], "SegmentationModel");
  const auto enlarged = [&](const NDArray& y) { return resize2d(y, size, {.mode = ResizeMode::bilinear}); };
  const NDArray early = backbone_(inputs[0]);
  Arrays results{enlarged(head_(top_(early)))};
  if (has_aux_)
    results.push_back(enlarged(aux_(early)));
  return results;
}

SegmentationModel fcn_resnet(int layers, const SegmentationOptions& options) {
  check("fcn_resnet", options);
  return {
      dilated_resnet(layers, 0, 2),
      dilated_resnet(layers, 3, 3),
      simple_head(512, options.classes),
      aux_head(256, options)};
}

SegmentationModel deeplabv3_resnet(int layers, const SegmentationOptions& options) {
  check("deeplabv3_resnet", options);
  return {
      dilated_resnet(layers, 0, 2),
      dilated_resnet(layers, 3, 3),
      pyramid_head(options.classes),
      aux_head(256, options)};
}

SegmentationModel deeplabv3_mobilenet_v3_large(const SegmentationOptions& options) {
  check("deeplabv3_mobilenet_v3_large", options);
  return {
      dilated_mobilenet_v3(0, 4), dilated_mobilenet_v3(5, 16), pyramid_head(options.classes), aux_head(10, options)};
}

}  // namespace sluice::gluon::model_zoo::segmentation
