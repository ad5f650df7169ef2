#pragma once

#include <cstdint>
#include <string>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/activation.h>
#include <sluice/gluon/nn/size2d.h>
#include <sluice/operator/conv/conv.h>

namespace sluice::gluon::nn {

/// Of Conv2D; pairs are one number or {height, width}, padding each side of its own too.
struct Conv2DOptions {
  Size2D strides = 1;
  Padding2D padding = 0;  // zeros beside the image
  Size2D dilation = 1;
  std::int64_t groups = 1;
  std::string activation = {};  // a name that nn::Activation knows; "" = none
  bool use_bias = true;
  DType dtype = float32;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  init::Initializer bias_initializer = init::Zero();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// 2-D convolution (Gluon's nn.Conv2D): x (N, C, H, W) gives (N, channels, OH, OW) with
/// OH = (H + top + bottom - dilation (kernel - 1) - 1) / strides + 1. Parameters: weight (channels, C / groups, KH,
/// KW), bias (channels,).
class SLUICE_API Conv2D : public Block {
 public:
  /// Throws ValueError for sizes out of range and an unknown activation.
  Conv2D(std::int64_t channels, Size2D kernel_size, Conv2DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  ConvolutionOptions window_;
  std::int64_t channels_;
  Size2D kernel_;
  detail::ActivationFunction activation_;
  Parameter& weight_;
  Parameter* bias_;
};

}  // namespace sluice::gluon::nn
