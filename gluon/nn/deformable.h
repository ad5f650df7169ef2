#pragma once

#include <cstdint>
#include <string>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/activation.h>
#include <sluice/gluon/nn/size2d.h>

namespace sluice::gluon::nn {

/// Of DeformableConvolution and ModulatedDeformableConvolution.
struct DeformableConvolutionOptions {
  Size2D strides = 1;
  Size2D padding = 0;  // zeros on both sides
  Size2D dilation = 1;
  std::int64_t groups = 1;
  std::int64_t num_deformable_group = 1;  // groups of channels that share offsets
  std::string activation = {};            // a name that nn::Activation knows; "" = none
  bool use_bias = true;
  bool offset_use_bias = true;
  DType dtype = float32;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  init::Initializer bias_initializer = init::Zero();
  init::Initializer offset_weight_initializer = init::Zero();
  init::Initializer offset_bias_initializer = init::Zero();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// 2-D convolution of samples beside its window, as far away as a convolution of x says (Gluon's
/// nn.DeformableConvolution; Dai et al., 2017): deformable_convolution() of x (N, C, H, W). Parameters:
/// deformable_conv_weight (channels, C / groups, KH, KW), deformable_conv_bias, offset_weight (2 * groups of offsets *
/// KH * KW, C, KH, KW), offset_bias.
class SLUICE_API DeformableConvolution : public Block {
 public:
  /// Throws ValueError for sizes out of range and an unknown activation.
  explicit DeformableConvolution(
      std::int64_t channels, Size2D kernel_size = 1, DeformableConvolutionOptions options = {});

 protected:
  /// With `modulated` the convolution says a factor for each sample too.
  DeformableConvolution(
      const char* name,
      std::int64_t channels,
      Size2D kernel_size,
      const DeformableConvolutionOptions& options,
      bool modulated);
  NDArray forward(const NDArray& x) const override;

 private:
  std::int64_t offsets() const noexcept;  // channels of them, for x and y
  Parameter& declare(const char* name, const Shape& shape, const init::Initializer& init);

  const char* name_;
  std::int64_t channels_;
  Size2D kernel_;
  DeformableConvolutionOptions options_;
  bool modulated_;
  detail::ActivationFunction activation_;
  Parameter *weight_, *bias_ = nullptr, *offset_weight_, *offset_bias_ = nullptr;
};

/// The same with a factor for each sample, twice a sigmoid (Gluon's nn.ModulatedDeformableConvolution; Zhu et al.,
/// 2019). Offsets' parameters have half as many channels more: offset_weight (3 * groups of offsets * KH * KW, ..).
class SLUICE_API ModulatedDeformableConvolution : public DeformableConvolution {
 public:
  /// Throws ValueError for sizes out of range and an unknown activation.
  explicit ModulatedDeformableConvolution(
      std::int64_t channels, Size2D kernel_size = 1, const DeformableConvolutionOptions& options = {});
};

}  // namespace sluice::gluon::nn
