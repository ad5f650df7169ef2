#pragma once

#include <cstdint>
#include <string>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/activation.h>
#include <sluice/gluon/nn/size2d.h>
#include <sluice/operator/conv/composed.h>

namespace sluice::gluon::nn {

/// Of Conv2DTranspose; pairs are one number or {height, width}, padding each side of its own too.
struct Conv2DTransposeOptions {
  Size2D strides = 1;
  Padding2D padding = 0;      // cut off the result
  Size2D output_padding = 0;  // rows and columns more at its end: below strides
  Size2D dilation = 1;
  std::int64_t groups = 1;
  std::string activation = {};  // a name that nn::Activation knows; "" = none
  bool use_bias = true;
  DType dtype = float32;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  init::Initializer bias_initializer = init::Zero();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// Transposed 2-D convolution (Gluon's nn.Conv2DTranspose, PyTorch nn.ConvTranspose2d): deconvolution() of x (N, C, H,
/// W). Parameters: weight (C, channels / groups, KH, KW), bias (channels,).
class SLUICE_API Conv2DTranspose : public Block {
 public:
  /// Throws ValueError for sizes out of range and an unknown activation.
  Conv2DTranspose(std::int64_t channels, Size2D kernel_size, Conv2DTransposeOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  DeconvolutionOptions window_;
  std::int64_t channels_;
  Size2D kernel_;
  detail::ActivationFunction activation_;
  Parameter& weight_;
  Parameter* bias_;
};

/// Of Conv1DTranspose.
struct Conv1DTransposeOptions {
  std::int64_t strides = 1;
  std::int64_t padding = 0;         // cut off both sides of the result
  std::int64_t output_padding = 0;  // entries more at its end: below strides
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  std::string activation = {};
  bool use_bias = true;
  DType dtype = float32;
  init::Initializer weight_initializer = {};
  init::Initializer bias_initializer = init::Zero();
  std::int64_t in_channels = 0;
};

/// Transposed 1-D convolution (Gluon's nn.Conv1DTranspose, PyTorch nn.ConvTranspose1d): deconvolution1d() of x (N, C,
/// W). Parameters: weight (C, channels / groups, kernel_size), bias (channels,).
class SLUICE_API Conv1DTranspose : public Block {
 public:
  /// Throws ValueError for sizes out of range and an unknown activation.
  Conv1DTranspose(std::int64_t channels, std::int64_t kernel_size, Conv1DTransposeOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Deconvolution1DOptions window_;
  std::int64_t channels_, kernel_;
  detail::ActivationFunction activation_;
  Parameter& weight_;
  Parameter* bias_;
};

}  // namespace sluice::gluon::nn
