#pragma once

#include <cstdint>

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/volume.h>

/// Layers over images (N, C, H, W), rows (N, C, W) and volumes (N, C, D, H, W) that move or repeat what is there and
/// have no parameters.
namespace sluice::gluon::nn {

/// Puts around an image `padding` rows and columns that mirror it, without the edge itself (Gluon's
/// nn.ReflectionPad2D).
class SLUICE_API ReflectionPad2D : public Block {
 public:
  /// Throws ValueError for a negative number.
  explicit ReflectionPad2D(std::int64_t padding);

 protected:
  /// Throws ShapeError for other than four axes.
  NDArray forward(const NDArray& x) const override;

 private:
  std::int64_t padding_;
};

/// (N, C * factor^2, H, W) to (N, C, H * factor, W * factor): channel (c * factor + i) * factor + j holds row i and
/// column j of each tile (Gluon's nn.PixelShuffle2D, PyTorch's; Shi and others, 2016).
class SLUICE_API PixelShuffle2D : public Block {
 public:
  /// Throws ValueError for a factor below 1.
  explicit PixelShuffle2D(std::int64_t factor);

 protected:
  /// Throws ShapeError for other than four axes, and for channels that factor^2 does not divide.
  NDArray forward(const NDArray& x) const override;

 private:
  std::int64_t factor_;
};

/// (N, C * factor, W) to (N, C, W * factor): channel c * factor + i holds entry i of each tile (Gluon's
/// nn.PixelShuffle1D).
class SLUICE_API PixelShuffle1D : public Block {
 public:
  /// Throws ValueError for a factor below 1.
  explicit PixelShuffle1D(std::int64_t factor);

 protected:
  /// Throws ShapeError for other than three axes, and for channels that the factor does not divide.
  NDArray forward(const NDArray& x) const override;

 private:
  std::int64_t factor_;
};

/// (N, C * depth * height * width, D, H, W), of a factor (depth, height, width), to (N, C, D * depth, H * height, W *
/// width): channel ((c * depth + i) * height + j) * width + k holds place (i, j, k) of each tile (Gluon's
/// nn.PixelShuffle3D).
class SLUICE_API PixelShuffle3D : public Block {
 public:
  /// Throws ValueError for a factor below 1, ShapeError for more places than an array has.
  explicit PixelShuffle3D(Size3D factor);

 protected:
  /// Throws ShapeError for other than five axes, and for channels that the factors do not divide.
  NDArray forward(const NDArray& x) const override;

 private:
  Size3D factor_;
};

}  // namespace sluice::gluon::nn
