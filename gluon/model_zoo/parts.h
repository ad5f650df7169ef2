#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <sluice/gluon/nn/activation.h>
#include <sluice/gluon/nn/batch_norm.h>
#include <sluice/gluon/nn/conv.h>
#include <sluice/gluon/nn/sequential.h>

// What several models are made of. Private to this folder.
namespace sluice::gluon::model_zoo {

template <class B>
std::shared_ptr<Block> shared(B&& block) {
  return std::make_shared<B>(std::move(block));
}

/// A convolution without bias, batch norm, and an activation unless its name is empty.
struct ConvNorm {
  std::int64_t channels = 0;
  nn::Size2D kernel = 1;
  nn::Size2D strides = 1;
  nn::Padding2D padding = 0;
  std::int64_t groups = 1;
  const char* activation = "relu";
  double epsilon = 1e-5;
  bool use_bias = false;
  std::int64_t dilation = 1;
  double momentum = 0.9;
};
inline void add_conv_norm(nn::Sequential& net, const ConvNorm& what) {
  net.add(nn::Conv2D(
      what.channels,
      what.kernel,
      {.strides = what.strides,
       .padding = what.padding,
       .dilation = what.dilation,
       .groups = what.groups,
       .use_bias = what.use_bias}));
  net.add(nn::BatchNorm({.momentum = what.momentum, .epsilon = what.epsilon}));
  if (*what.activation != '\0')
    net.add(nn::Activation(what.activation));
}

/// So many channels that eight divide them, none fewer by a tenth (MobileNet's make_divisible).
inline std::int64_t in_eights(double channels) {
  const auto rounded = std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + 8 : rounded;
}

/// What scales channels by what all of them say (Hu et al., "Squeeze-and-excitation networks", 2018; torchvision's
/// SqueezeExcitation): x times gate(fc2(act(fc1(means)))). Children "fc1" and "fc2".
class SqueezeExcitation : public Block {
 public:
  using Gate = NDArray (*)(const NDArray& x, SourceLocation site);
  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed, std::string activation, Gate gate);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Child<nn::Conv2D> first_, second_;
  Gate gate_;
};

/// Height and width, asked for so that a trace serves batches of all sizes.
Shape height_and_width(const NDArray& x);
/// The same of what a model takes: throws ShapeError for other than (N, C, H, W).
Shape image_size(const NDArray& x, const char* model);

/// Stages `first` to `last` of four of a resnet_v1b, before the first of them the stem. The last two stages have
/// dilation in place of strides, as backbones of segmentation want it.
nn::Sequential dilated_resnet(int layers, int first, int last);

/// Of mobilenet_v3_large() the layers `first` to `last` of 17, dilated from the 13th on.
nn::Sequential dilated_mobilenet_v3(int first, int last);

}  // namespace sluice::gluon::model_zoo
