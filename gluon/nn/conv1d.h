#pragma once

#include <cstdint>
#include <string>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/activation.h>
#include <sluice/operator/conv/composed.h>

namespace sluice::gluon::nn {

/// Of Conv1D.
struct Conv1DOptions {
  std::int64_t strides = 1;
  std::int64_t padding = 0;  // zeros on both sides
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  std::string activation = {};  // a name that nn::Activation knows; "" = none
  bool use_bias = true;
  DType dtype = float32;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  init::Initializer bias_initializer = init::Zero();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// 1-D convolution (Gluon's nn.Conv1D, PyTorch nn.Conv1d): x (N, C, W) gives (N, channels, OW) with
/// OW = (W + 2 padding - dilation (kernel_size - 1) - 1) / strides + 1. Parameters: weight (channels, C / groups,
/// kernel_size), bias (channels,).
class SLUICE_API Conv1D : public Block {
 public:
  /// Throws ValueError for sizes out of range and an unknown activation.
  Conv1D(std::int64_t channels, std::int64_t kernel_size, Conv1DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Convolution1DOptions window_;
  std::int64_t channels_, kernel_;
  detail::ActivationFunction activation_;
  Parameter& weight_;
  Parameter* bias_;
};

}  // namespace sluice::gluon::nn
