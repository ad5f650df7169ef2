#pragma once

#include <optional>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/size2d.h>
#include <sluice/operator/pool/pool.h>

namespace sluice::gluon::nn {

/// Of MaxPool2D and AvgPool2D; pairs are one number or {height, width}, padding each side of its own too.
struct Pool2DOptions {
  std::optional<Size2D> strides = {};  // the window if not given
  Padding2D padding = 0;
  bool ceil_mode = false;         // keep the last window although it hangs over the edge
  bool count_include_pad = true;  // AvgPool2D: padding counts as zeros
};

/// Largest value of each window of (N, C, H, W) (Gluon's nn.MaxPool2D).
class SLUICE_API MaxPool2D : public Block {
 public:
  /// Throws ValueError for sizes out of range.
  explicit MaxPool2D(Size2D pool_size = 2, Pool2DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  PoolOptions window_;
};

/// Mean of each window of (N, C, H, W) (Gluon's nn.AvgPool2D).
class SLUICE_API AvgPool2D : public Block {
 public:
  /// Throws ValueError for sizes out of range.
  explicit AvgPool2D(Size2D pool_size = 2, Pool2DOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  PoolOptions window_;
};

}  // namespace sluice::gluon::nn
