#pragma once

#include <cstdint>
#include <optional>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/size2d.h>
#include <sluice/operator/pool/composed.h>

namespace sluice::gluon::nn {

/// Of MaxPool1D and AvgPool1D.
struct Pool1DOptions {
  std::optional<std::int64_t> strides = {};  // the window if not given
  std::int64_t padding = 0;                  // on both sides
  bool ceil_mode = false;                    // keep the last window although it hangs over the edge
  bool count_include_pad = true;             // AvgPool1D: padding counts as zeros
};

/// Largest value of each window of (N, C, W) (Gluon's nn.MaxPool1D).
class SLUICE_API MaxPool1D : public Block {
 public:
  /// Throws ValueError for sizes out of range.
  explicit MaxPool1D(std::int64_t pool_size = 2, Pool1DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  sluice::Pool1DOptions window_;
};

/// Mean of each window of (N, C, W) (Gluon's nn.AvgPool1D).
class SLUICE_API AvgPool1D : public Block {
 public:
  /// Throws ValueError for sizes out of range.
  explicit AvgPool1D(std::int64_t pool_size = 2, Pool1DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  sluice::Pool1DOptions window_;
};

/// Largest value of each channel: (N, C, W) gives (N, C, 1) (Gluon's nn.GlobalMaxPool1D).
class SLUICE_API GlobalMaxPool1D : public Block {
 protected:
  NDArray forward(const NDArray& x) const override;
};

/// Mean of each channel: (N, C, W) gives (N, C, 1) (Gluon's nn.GlobalAvgPool1D).
class SLUICE_API GlobalAvgPool1D : public Block {
 protected:
  NDArray forward(const NDArray& x) const override;
};

/// Largest value of each channel: (N, C, H, W) gives (N, C, 1, 1) (Gluon's nn.GlobalMaxPool2D).
class SLUICE_API GlobalMaxPool2D : public Block {
 protected:
  NDArray forward(const NDArray& x) const override;
};

/// Mean of each channel: (N, C, H, W) gives (N, C, 1, 1) (Gluon's nn.GlobalAvgPool2D).
class SLUICE_API GlobalAvgPool2D : public Block {
 protected:
  NDArray forward(const NDArray& x) const override;
};

/// adaptive_avg_pool2d(): (N, C, H, W) gives (N, C) + output_size (PyTorch nn.AdaptiveAvgPool2d).
class SLUICE_API AdaptiveAvgPool2D : public Block {
 public:
  /// Throws ValueError for sizes below 1.
  explicit AdaptiveAvgPool2D(Size2D output_size = 1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Size2D output_size_;
};

/// adaptive_max_pool2d(): (N, C, H, W) gives (N, C) + output_size (PyTorch nn.AdaptiveMaxPool2d).
class SLUICE_API AdaptiveMaxPool2D : public Block {
 public:
  /// Throws ValueError for sizes below 1.
  explicit AdaptiveMaxPool2D(Size2D output_size = 1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Size2D output_size_;
};

/// adaptive_avg_pool1d(): (N, C, W) gives (N, C, output_size) (PyTorch nn.AdaptiveAvgPool1d).
class SLUICE_API AdaptiveAvgPool1D : public Block {
 public:
  /// Throws ValueError for sizes below 1.
  explicit AdaptiveAvgPool1D(std::int64_t output_size = 1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  std::int64_t output_size_;
};

/// adaptive_max_pool1d(): (N, C, W) gives (N, C, output_size) (PyTorch nn.AdaptiveMaxPool1d).
class SLUICE_API AdaptiveMaxPool1D : public Block {
 public:
  /// Throws ValueError for sizes below 1.
  explicit AdaptiveMaxPool1D(std::int64_t output_size = 1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  std::int64_t output_size_;
};

}  // namespace sluice::gluon::nn
