#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/activation.h>
#include <sluice/operator/conv/volume.h>
#include <sluice/operator/pool/volume.h>

// Layers of volumes, (N, C, D, H, W).
namespace sluice::gluon::nn {

/// (depth, height, width): written as one number for all, or as {depth, height, width}.
class Size3D {
 public:
  template <std::integral Int>
  constexpr Size3D(Int all) noexcept : depth(all), height(all), width(all) {}  // NOLINT: converts by design
  constexpr Size3D(std::int64_t d, std::int64_t h, std::int64_t w) noexcept : depth(d), height(h), width(w) {}
  Shape shape() const { return {depth, height, width}; }
  constexpr bool is_at_least(std::int64_t least) const noexcept {
    return depth >= least && height >= least && width >= least;
  }

  std::int64_t depth, height, width;
};

/// Of Conv3D.
struct Conv3DOptions {
  Size3D strides = 1;
  Size3D padding = 0;  // zeros on both sides
  Size3D dilation = 1;
  std::int64_t groups = 1;
  std::string activation = {};  // a name that nn::Activation knows; "" = none
  bool use_bias = true;
  DType dtype = float32;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  init::Initializer bias_initializer = init::Zero();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// 3-D convolution (Gluon's nn.Conv3D, PyTorch nn.Conv3d): convolution3d() of x (N, C, D, H, W). Parameters: weight
/// (channels, C / groups, KD, KH, KW), bias (channels,).
class SLUICE_API Conv3D : public Block {
 public:
  /// Throws ValueError for sizes out of range and an unknown activation.
  Conv3D(std::int64_t channels, Size3D kernel_size, Conv3DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Convolution3DOptions window_;
  std::int64_t channels_;
  Size3D kernel_;
  detail::ActivationFunction activation_;
  Parameter& weight_;
  Parameter* bias_;
};

/// Of Conv3DTranspose.
struct Conv3DTransposeOptions {
  Size3D strides = 1;
  Size3D padding = 0;         // cut off both sides of the result
  Size3D output_padding = 0;  // entries more at its end: below strides
  Size3D dilation = 1;
  std::int64_t groups = 1;
  std::string activation = {};
  bool use_bias = true;
  DType dtype = float32;
  init::Initializer weight_initializer = {};
  init::Initializer bias_initializer = init::Zero();
  std::int64_t in_channels = 0;
};

/// Transposed 3-D convolution (Gluon's nn.Conv3DTranspose, PyTorch nn.ConvTranspose3d): deconvolution3d() of x (N, C,
/// D, H, W). Parameters: weight (C, channels / groups, KD, KH, KW), bias (channels,).
class SLUICE_API Conv3DTranspose : public Block {
 public:
  /// Throws ValueError for sizes out of range and an unknown activation.
  Conv3DTranspose(std::int64_t channels, Size3D kernel_size, Conv3DTransposeOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Deconvolution3DOptions window_;
  std::int64_t channels_;
  Size3D kernel_;
  detail::ActivationFunction activation_;
  Parameter& weight_;
  Parameter* bias_;
};

/// Of MaxPool3D and AvgPool3D.
struct Pool3DOptions {
  std::optional<Size3D> strides = {};  // the window if not given
  Size3D padding = 0;                  // on both sides
  bool ceil_mode = false;              // keep the last window although it hangs over the edge
  bool count_include_pad = true;       // AvgPool3D: padding counts as zeros
};

/// Largest value of each window of (N, C, D, H, W) (Gluon's nn.MaxPool3D).
class SLUICE_API MaxPool3D : public Block {
 public:
  /// Throws ValueError for sizes out of range.
  explicit MaxPool3D(Size3D pool_size = 2, Pool3DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  sluice::Pool3DOptions window_;
};

/// Mean of each window of (N, C, D, H, W) (Gluon's nn.AvgPool3D).
class SLUICE_API AvgPool3D : public Block {
 public:
  /// Throws ValueError for sizes out of range.
  explicit AvgPool3D(Size3D pool_size = 2, Pool3DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  sluice::Pool3DOptions window_;
};

/// Largest value of each channel: (N, C, D, H, W) gives (N, C, 1, 1, 1) (Gluon's nn.GlobalMaxPool3D).
class SLUICE_API GlobalMaxPool3D : public Block {
 protected:
  NDArray forward(const NDArray& x) const override;
};

/// Mean of each channel: (N, C, D, H, W) gives (N, C, 1, 1, 1) (Gluon's nn.GlobalAvgPool3D).
class SLUICE_API GlobalAvgPool3D : public Block {
 protected:
  NDArray forward(const NDArray& x) const override;
};

/// adaptive_avg_pool3d(): (N, C, D, H, W) gives (N, C) + output_size (PyTorch nn.AdaptiveAvgPool3d).
class SLUICE_API AdaptiveAvgPool3D : public Block {
 public:
  /// Throws ValueError for sizes below 1.
  explicit AdaptiveAvgPool3D(Size3D output_size = 1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Size3D output_size_;
};

/// adaptive_max_pool3d(): (N, C, D, H, W) gives (N, C) + output_size (PyTorch nn.AdaptiveMaxPool3d).
class SLUICE_API AdaptiveMaxPool3D : public Block {
 public:
  /// Throws ValueError for sizes below 1.
  explicit AdaptiveMaxPool3D(Size3D output_size = 1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Size3D output_size_;
};

}  // namespace sluice::gluon::nn
