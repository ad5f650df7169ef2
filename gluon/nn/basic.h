#pragma once

#include <functional>

#include <sluice/gluon/block.h>
#include <sluice/operator/random/dropout.h>

namespace sluice::gluon::nn {

/// In training (autograd::is_training()): zero with probability `rate`, else x / (1 - rate). Otherwise x itself.
class SLUICE_API Dropout : public Block {
 public:
  /// Throws ValueError unless 0 <= rate <= 1.
  explicit Dropout(double rate);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  double rate_;
};

/// Stochastic depth (Huang et al., 2016; torchvision's StochasticDepth of mode "row", timm's DropPath): in training
/// each sample, an entry of the first axis, is zero as a whole with probability `rate`, else x / (1 - rate). Otherwise
/// x itself. For what is added to what goes round it.
class SLUICE_API DropPath : public Block {
 public:
  /// Throws ValueError unless 0 <= rate <= 1.
  explicit DropPath(double rate);

 protected:
  /// Throws ShapeError for an array without axes.
  NDArray forward(const NDArray& x) const override;

 private:
  double rate_;
};

/// (N, ...) to (N, rest): a view where strides allow.
class SLUICE_API Flatten : public Block {
 protected:
  NDArray forward(const NDArray& x) const override;
};

/// Any function of one array as a layer (Gluon's nn.Lambda): `nn::Lambda([](const NDArray& x) { return exp(x); })`.
class SLUICE_API Lambda : public Block {
 public:
  /// Throws ValueError for an empty function.
  explicit Lambda(std::function<NDArray(const NDArray&)> function);

 protected:
  NDArray forward(const NDArray& x) const override { return function_(x); }

 private:
  std::function<NDArray(const NDArray&)> function_;
};

}  // namespace sluice::gluon::nn
